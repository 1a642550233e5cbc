// A member's follower, and a store whose ledger a test writes.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "tests/member/written_ledger.h"
#include "thinwire/base/nkey.h"
#include "thinwire/member/follower.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::member {

using membership::Phase;
using membership::PhaseChange;

class FollowerCase : public testing::Test {
 protected:
  // For the member with this id.
  void follow(int member, const std::optional<Place>& checkpoint = {},
              const std::map<uint64_t, Bytes>& records = {}) {
    signer_ = signer_of(static_cast<uint8_t>(100 + member));
    courier_ = network_.connect(participant_name(signer_->key()));
    FollowerSettings settings{.machine = {ledger_.founding, timeout_s_}};
    settings.machine.sums = sums_;
    settings.stop = &stop_;
    settings.machine.checkpoint = checkpoint;
    settings.machine.records = records;
    settings.hooks.message = [this](const std::string& text) {
      const std::lock_guard lock(said_mutex_);
      messages_ += text + "\n";
    };
    settings.hooks.activity = [this](const Activity& activity) {
      const std::lock_guard lock(said_mutex_);
      activities_.push_back(activity.text);
      active_.notify_all();
    };
    follower_.emplace(*courier_, *signer_, plan_, std::move(settings));
  }
  void append(const Bytes& record) {
    store_->append(membership::kLedgerStream, last_++, record,
                   [](const Result<uint64_t>& done) { EXPECT_TRUE(done) << done.error().message; });
    network_.run();
  }
  // Member 0, which the coordinator tells to start from the initial weights.
  Result<StartState> follow_from_initial_weights() {
    follow(0);
    append(ledger_.found());
    append(ledger_.admit(0));
    append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
    return follower_->wait_start_state();
  }
  // As member 0, for which round 0 is open.
  void follow_into_a_round() {
    follow(0);
    append(ledger_.found());
    append(ledger_.admit(0));
    append(ledger_.open(0, 0));
  }
  // The last record never reached the disk.
  void lose_last() {
    network_.lose_records(membership::kLedgerStream, 1);
    --last_;
  }
  bool is_stored(const Bytes& blob) {
    bool stored = false;
    store_->get(transport::blob_id(blob), {courier_->self()}, transport::Priority::kRound,
                [&](const Result<Bytes>& got) { stored = got.has_value(); });
    network_.run();
    return stored;
  }

  // The store has it no longer, and somebody says so.
  void lose(const Bytes& blob, uint8_t who) {
    const Sha256 name = transport::blob_id(blob).name;
    store_->drop(name, courier_->self(), [](const Result<void>&) {});
    network_.run();
    EXPECT_FALSE(is_stored(blob));
    const auto signer = signer_of(who);
    store_->publish(
        membership::kMembersTopic,
        membership::encode_statement(
            {ledger_.founding.run, signer->key(), ++said_, membership::Lacking{name}}, *signer));
    network_.run();
  }

  WrittenLedger ledger_;
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> store_ = network_.connect("store");
  const config::Recipe recipe_ =
      method::load_recipe("", std::vector<std::string>{"train.steps=4", "model.vocab=64"});
  const membership::RecipePlan plan_{recipe_, method::tensors_of(recipe_)};
  std::unique_ptr<Signer> signer_;
  std::unique_ptr<transport::Courier> courier_;
  std::atomic<bool> stop_ = false;
  double timeout_s_ = 1e6;  // reports are too rare to matter
  std::optional<sync::SumRule> sums_;
  std::optional<Follower> follower_;
  std::mutex said_mutex_;
  std::string messages_;
  std::vector<std::string> activities_;
  std::condition_variable active_;
  uint64_t last_ = 0;
  uint64_t said_ = 0;
};

}  // namespace thinwire::member
