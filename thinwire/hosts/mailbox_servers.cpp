#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

class MailboxServers final : public RunServers {
 public:
  MailboxServers(const fs::path& folder, const Seed& coordinator)
      : entrance_{{}, "", {}, fs::absolute(folder)}, key_(make_signer(coordinator)->key()) {}

  std::unique_ptr<transport::Courier> connect() override {
    return open_mailbox(entrance_.mailbox, key_, transport::participant_name(key_));
  }
  const Entrance& entrance() const override { return entrance_; }
  void set_users(std::vector<transport::NatsUser> /*users*/) override {}
  std::string maintain() override {
    std::error_code unreachable;
    const bool there = fs::is_directory(entrance_.mailbox, unreachable);
    if (there == std::exchange(was_there_, there)) return "";
    return fmt::format("the mailbox {} {}", entrance_.mailbox.string(),
                       there ? "is back" : "is gone; waits for it");
  }

 private:
  const Entrance entrance_;
  const PublicKey key_;
  bool was_there_ = true;
};

}  // namespace

std::unique_ptr<RunServers> use_mailbox(const fs::path& folder, const Seed& coordinator) {
  return std::make_unique<MailboxServers>(folder, coordinator);
}

}  // namespace thinwire::hosts
