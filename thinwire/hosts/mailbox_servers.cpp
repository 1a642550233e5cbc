#include <fmt/format.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>
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
    return open_mailbox(entrance_.mailbox, key_, transport::participant_name(key_), false,
                        [told = told_](const std::string& sentence) {
                          const std::lock_guard lock(told->mutex);
                          told->sentences.push_back(sentence);
                        });
  }
  const Entrance& entrance() const override { return entrance_; }
  void set_users(std::vector<transport::NatsUser> /*users*/) override {}
  std::string maintain() override {
    std::error_code unreachable;
    const bool there = fs::is_directory(entrance_.mailbox, unreachable);
    if (there == std::exchange(was_there_, there)) return next_told();
    return fmt::format("the mailbox {} {}", entrance_.mailbox.string(),
                       there ? "is back" : "is gone; waits for it");
  }
  std::string obstacle() const override {
    return was_there_ ? ""
                      : fmt::format("the mailbox {}, which is gone", entrance_.mailbox.string());
  }

 private:
  // By the courier's thread.
  struct Told {
    std::mutex mutex;
    std::deque<std::string> sentences;
  };

  std::string next_told() const {
    const std::lock_guard lock(told_->mutex);
    if (told_->sentences.empty()) return "";
    std::string sentence = std::move(told_->sentences.front());
    told_->sentences.pop_front();
    return sentence;
  }

  const Entrance entrance_;
  const PublicKey key_;
  bool was_there_ = true;
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
};

}  // namespace

std::unique_ptr<RunServers> use_mailbox(const fs::path& folder, const Seed& coordinator) {
  return std::make_unique<MailboxServers>(folder, coordinator);
}

}  // namespace thinwire::hosts
