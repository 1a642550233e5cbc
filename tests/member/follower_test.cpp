#include "thinwire/member/follower.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/member/written_ledger.h"
#include "thinwire/base/clock.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/registry.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/courier/courier_memory.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {
namespace {

using membership::Phase;
using membership::PhaseChange;

constexpr double kPatienceSeconds = 60;

// A follower, and a store whose ledger the test writes.
class FollowerCase : public testing::Test {
 protected:
  // For the member with this id. Reports are too rare to matter here.
  void follow(int member) {
    signer_ = signer_of(static_cast<uint8_t>(100 + member));
    courier_ = network_.connect(transport::participant_name(signer_->key()));
    follower_.emplace(*courier_, *signer_, plan_, FollowerSettings{ledger_.founding, 1e6});
  }
  void append(const Bytes& record) {
    store_->append(serve::kLedgerStream, last_++, record,
                   [](const Result<uint64_t>& done) { EXPECT_TRUE(done) << done.error().message; });
    network_.run();
  }
  // The last record never reached the disk.
  void lose_last() {
    network_.lose_records(serve::kLedgerStream, 1);
    --last_;
  }
  bool is_stored(const Bytes& blob) {
    bool stored = false;
    store_->get(transport::blob_id(blob), {courier_->self()}, transport::Priority::kRound,
                [&](const Result<Bytes>& got) { stored = got.has_value(); });
    network_.run();
    return stored;
  }

  WrittenLedger ledger_;
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> store_ = network_.connect("store");
  const config::Recipe recipe_ =
      method::load_recipe("", std::vector<std::string>{"train.steps=4", "model.vocab=64"});
  const membership::RecipePlan plan_{recipe_, method::tensors_of(recipe_)};
  std::unique_ptr<Signer> signer_;
  std::unique_ptr<transport::Courier> courier_;
  std::optional<Follower> follower_;
  uint64_t last_ = 0;
};

TEST_F(FollowerCase, DoesNotBeginInAHistoryThatIsGone) {
  follow(1);
  append(ledger_.found());
  for (const int member : {0, 1}) append(ledger_.admit(member));
  append(ledger_.add({membership::Snapshot{0, 2, {}, 10}, PhaseChange{1, Phase::kCatchingUp, 2}}));
  const auto beginning = follower_->wait_beginning();
  ASSERT_TRUE(beginning);
  EXPECT_EQ(beginning->sequence, 2u);
  EXPECT_FALSE(follower_->is_obsolete(*beginning));

  WrittenLedger other;  // the same but for the last record
  other.found();
  for (const int member : {0, 1}) other.admit(member);
  lose_last();
  for (const int member : {2, 3}) append(other.admit(member));
  EXPECT_TRUE(follower_->is_obsolete(*beginning));
  EXPECT_FALSE(follower_->begin(*beginning, 1));
}

TEST_F(FollowerCase, LeavesASnapshotThatItIsNoLongerToBeginWith) {
  follow(0);
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
  const auto beginning = follower_->wait_beginning();
  ASSERT_TRUE(beginning);
  append(ledger_.add({PhaseChange{0, Phase::kCatchingUp, 0}}));
  EXPECT_FALSE(follower_->is_obsolete(*beginning)) << "told the same twice";
  append(ledger_.admit(1));
  append(ledger_.add({membership::Snapshot{1, 2, {}, 10}, PhaseChange{0, Phase::kCatchingUp, 2}}));
  EXPECT_TRUE(follower_->is_obsolete(*beginning));
}

// Not only with the next report, which is hours away here.
TEST_F(FollowerCase, GivesTheStoreAgainSoonWhatItHadNoRoomFor) {
  follow(0);
  append(ledger_.found());
  append(ledger_.admit(0));
  append(ledger_.open(0, 0));
  const Bytes payload = {1, 2, 3};
  network_.set_disk_bytes(0);
  follower_->offer(0, 0, payload, 0);
  EXPECT_FALSE(is_stored(payload));
  network_.set_disk_bytes(std::numeric_limits<uint64_t>::max());
  const Stopwatch watch;
  while (!is_stored(payload) && watch.seconds() < kPatienceSeconds) continue;
  EXPECT_TRUE(is_stored(payload));
}

}  // namespace
}  // namespace thinwire::member
