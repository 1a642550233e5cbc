// A coordinator and a store that answers at once, for tests that give the members' messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fake_signer.h"
#include "memory_ledger.h"
#include "simulation.h"
#include "thinwire/membership/coordinator.h"

namespace thinwire::membership {

inline std::vector<int> roster(const Opening& opening) {
  std::vector<int> members;
  for (const Share& share : opening.roster) members.push_back(share.member);
  return members;
}

inline std::vector<uint64_t> rows_of(const Opening& opening) {
  std::vector<uint64_t> rows;
  for (const Share& share : opening.roster) rows.push_back(share.rows.count);
  return rows;
}

class CoordinatorCase : public testing::Test {
 protected:
  // T = 100 s: silence 25, takeover 12.5, absent 5, report 2.5, settle and least grace 1.
  CoordinatorCase() { options_.timeout_s = 100; }

  std::unique_ptr<Coordinator> make(uint64_t number, bool standby,
                                    const Position& remembered = {}) {
    return std::make_unique<Coordinator>(plan_, options_, signers_[number], fake_verify, founding_,
                                         standby, remembered);
  }

  // The run after its founding, with `count` members in round 0.
  void begin(int count) {
    coordinator_ = make(0, false);
    deliver({StoreConnected{ledger_.last()}});
    for (int member = 0; member < count; ++member) deliver({JoinRequest{key(member), {}, 0}});
    wait(2);
    for (int member = 0; member < count; ++member) report(member);
    ASSERT_EQ(state().next_round, 1u);
  }

  // Every action of the coordinator is carried out and reported to it at once.
  void deliver(std::vector<Input> inputs) {
    while (!inputs.empty()) {
      const std::vector<Action> actions = coordinator_->tick(inputs, now_);
      inputs.clear();
      for (const Action& action : actions) {
        if (const auto* append = std::get_if<Append>(&action)) {
          if (ledger_.append(append->expected_last, append->record) ==
              MemoryLedger::Outcome::kStored) {
            inputs.emplace_back(RecordRead{append->record});
          }
        } else if (const auto* refusal = std::get_if<Refuse>(&action)) {
          refusals_.push_back(refusal->why);
        } else if (const auto* notice = std::get_if<Notice>(&action)) {
          notices_.push_back(notice->text);
        } else if (const auto* halt = std::get_if<Halt>(&action)) {
          halted_ = halt->why;
        } else {
          asked_.push_back(action);
        }
      }
    }
  }
  // The coordinator is awake meanwhile.
  void wait(double seconds) {
    while (seconds > 0) {
      const double step = std::min(seconds, options_.retry_s());
      sleep(step);
      seconds -= step;
    }
  }
  // The same, and these members report that they are there.
  void wait(double seconds, const std::vector<int>& present) {
    while (seconds > 0) {
      const double step = std::min(seconds, options_.report_s());
      sleep(step);
      seconds -= step;
      for (const int one : present) report(one);
    }
  }
  // The coordinator's process ends, and another one with its key reads the ledger.
  void restart() {
    coordinator_ = make(0, false);
    std::vector<Input> inputs = {StoreConnected{ledger_.last()}};
    for (uint64_t record = 1; record <= ledger_.last(); ++record) {
      inputs.emplace_back(RecordRead{*ledger_.read(record)});
    }
    deliver(std::move(inputs));
  }
  // Calls it once, at the end.
  void sleep(double seconds) {
    now_ += seconds;
    deliver({Acknowledged{}});  // of nothing that anybody waits for
  }

  void report(int member, std::optional<AgreedDigest> digest = {}) {
    deliver({Report{member, state().position, digest}});
  }
  void offer(int member, uint64_t round, double seconds = 0, uint64_t payload = 0) {
    const Sha256 hash = hash_of(payload > 0 ? payload : 100 * round + member);
    deliver({Offer{member, round, state().epoch, 0, hash, 10, {seconds}}});
    deliver({Acknowledged{hash}});
  }

  // Who was asked for a snapshot, one after another.
  std::vector<int> asked_snapshots() const {
    std::vector<int> members;
    for (const Action& action : asked_) {
      if (const auto* ask = std::get_if<AskSnapshot>(&action)) members.push_back(ask->member);
    }
    return members;
  }

  const State& state() const { return coordinator_->state(); }
  const Member& member(int id) const { return state().members.at(static_cast<size_t>(id)); }
  Record last_record() const { return *decode_record(*ledger_.read(ledger_.last())); }
  static PublicKey key(int member) { return fake_key(100 + static_cast<uint64_t>(member)); }

  FakePlan plan_{0, 1, 10};
  Options options_;
  FakeSigner signers_[3] = {FakeSigner(0), FakeSigner(1), FakeSigner(2)};
  Founding founding_{7, {}, hash_of(1), 500, {fake_key(0), fake_key(1)}};
  MemoryLedger ledger_;
  std::unique_ptr<Coordinator> coordinator_;
  double now_ = 0;
  std::vector<std::string> refusals_;
  std::vector<std::string> notices_;
  std::string halted_;  // why; empty: it goes on
  std::vector<Action> asked_;
};

}  // namespace thinwire::membership
