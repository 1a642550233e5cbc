#include <fmt/format.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/nkey.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/method/combinations.h"

namespace thinwire::hosts {
namespace {

class MailboxServers final : public RunServers {
 public:
  explicit MailboxServers(const fs::path& folder) : folder_(fs::absolute(folder)) {}

  ServedBy served_by() const override { return ServedBy::kMailbox; }
  WaitLimits patience(WaitLimits usual) const override {
    usual.answer_s = kMailboxAnswerSeconds;
    usual.arrival_s = kMailboxArrivalSeconds;
    return usual;
  }
  void check(const fs::path& run_folder) const override {
    check_served_mailbox(run_folder, folder_);
  }
  // Everybody receives every contribution, so a sum would be one buffer more.
  void resolve(config::Recipe& recipe) const override {
    method::check_command(recipe, method::Command::kMailbox);
    recipe.sync.sums = config::Sums::kMembers;
  }
  std::string room(const config::Recipe& recipe, double files) const override {
    return check_room_for_store(recipe, folder_, files);
  }
  void start(const config::Recipe& /*recipe*/, const Seed& coordinator,
             std::vector<transport::NatsUser> /*users*/) override {
    key_ = make_signer(coordinator)->key();
  }
  std::unique_ptr<transport::Courier> connect() override {
    return open_mailbox(folder_, key_, participant_name(key_), false,
                        [told = told_](const std::string& sentence) {
                          const Lock lock(told->mutex);
                          told->sentences.push_back(sentence);
                        });
  }
  const Entrance& entrance() const override { return entrance_; }
  bool checks_names() const override { return false; }
  std::string maintain() override {
    std::error_code unreachable;
    const bool there = fs::is_directory(folder_, unreachable);
    if (there == std::exchange(was_there_, there)) return next_told();
    return fmt::format("the mailbox {} {}", folder_.string(),
                       there ? "is back" : "is gone; waits for it");
  }
  std::string obstacle() const override {
    return was_there_ ? "" : fmt::format("the mailbox {}, which is gone", folder_.string());
  }

 private:
  // By the courier's thread.
  struct Told {
    Mutex mutex;
    std::deque<std::string> sentences GUARDED_BY(mutex);
  };

  std::string next_told() const {
    const Lock lock(told_->mutex);
    if (told_->sentences.empty()) return "";
    std::string sentence = std::move(told_->sentences.front());
    told_->sentences.pop_front();
    return sentence;
  }

  const fs::path folder_;
  const MailboxEntrance entrance_{folder_};
  PublicKey key_;
  bool was_there_ = true;
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
};

}  // namespace

std::unique_ptr<RunServers> use_mailbox(const fs::path& folder) {
  return std::make_unique<MailboxServers>(folder);
}

}  // namespace thinwire::hosts
