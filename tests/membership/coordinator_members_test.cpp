#include <fmt/format.h>
#include <gmock/gmock.h>

#include "coordinator_case.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::membership {
namespace {

using testing::HasSubstr;

using Members = CoordinatorCase;

// Rounds of a step and two operations, with rows for many members.
class WidePlan final : public RunPlan {
 public:
  static constexpr uint32_t kFragments = 2;
  uint64_t workers() const override { return 3; }
  uint64_t batch() const override { return 1000; }
  uint64_t overlap() const override { return 0; }
  uint64_t rounds() const override { return 4; }
  Opening round(uint64_t number) const override {
    Opening opening;
    opening.round = opening.first_step = number;
    opening.last = number + 1 == rounds();
    opening.steps = {{0.5f, 0.5f}};
    for (uint32_t fragment = 0; fragment < kFragments; ++fragment) {
      opening.operations.push_back({fragment, 100});
    }
    return opening;
  }
};

TEST_F(Members, NobodyIsAdmittedOnceTheRunIsComplete) {
  begin(3);
  for (uint64_t round = 0; round < 10; ++round) {
    for (int member = 0; member < 3; ++member) offer(member, round);
  }
  ASSERT_TRUE(state().finished);
  deliver({JoinRequest{key(3), {}, 0}});
  wait(1);
  EXPECT_EQ(state().members.size(), 3u);
  EXPECT_EQ(refusals_, std::vector<std::string>{"the run is complete"});
}

TEST_F(Members, AFullRunAdmitsNobody) {
  options_.max_record_bytes = 1;  // room for one
  coordinator_ = make(0, false);
  deliver({StoreConnected{ledger_.last()}});
  for (int member = 0; member < 3; ++member) deliver({JoinRequest{key(member), {}, 0}});
  wait(2);
  EXPECT_EQ(state().members.size(), 1u);
  EXPECT_EQ(refusals_,
            std::vector<std::string>(2, "the run is full: its records have room for 1 member"));
  deliver({LeaveNotice{0}, JoinRequest{key(1), {}, 0}});
  wait(2);
  EXPECT_EQ(state().members.size(), 2u) << "there is room again";
}

// Members join, and leave at once, so that there are more of them than there is room; then all come
// back.
TEST_F(Members, RecordsOfAFullRunFitWhateverHappens) {
  options_.late_counts = true;
  options_.shares = config::RowShares::kSpeed;
  options_.max_record_bytes = 64 << 10;
  WidePlan plan;
  const uint64_t room = room_for_members(plan, options_);
  ASSERT_GT(room, 100u);
  ASSERT_LT(room, 400u);
  coordinator_ =
      std::make_unique<Coordinator>(plan, options_, signers_[0], fake_verify, founding_, false);
  deliver({StoreConnected{ledger_.last()}});
  const auto all = static_cast<int>(room + 50);
  for (int member = 0; member < all; ++member) {
    deliver({JoinRequest{key(member), {}, 0}});
    if (member < 50) deliver({LeaveNotice{member}});
  }
  wait(1);
  ASSERT_EQ(state().members.size(), static_cast<size_t>(all));
  for (int member = 0; member < 50; ++member) deliver({JoinRequest{key(member), {}, 0}});
  for (uint64_t round = 0; round < plan.rounds(); ++round) {
    std::vector<Input> inputs;
    for (int member = 0; member < all; ++member) {
      inputs.emplace_back(Report{member, state().position, {}});
    }
    deliver(std::move(inputs));
    ASSERT_EQ(state().next_round, round + 1);
    ASSERT_EQ(state().open.front().roster.size(), room);
    for (const Share& share : std::vector<Share>(state().open.front().roster)) {
      for (uint32_t fragment = 0; fragment < WidePlan::kFragments; ++fragment) {
        const Sha256 hash =
            hash_of(10'000 * round + 10 * static_cast<uint64_t>(share.member) + fragment);
        deliver({Offer{share.member, round, state().epoch, fragment, hash, 10, {0.5}},
                 Acknowledged{hash}});
      }
    }
  }
  EXPECT_TRUE(state().finished);
  size_t longest = 0;
  for (uint64_t record = 1; record <= ledger_.last(); ++record) {
    longest = std::max(longest, ledger_.read(record)->size());
  }
  EXPECT_LE(longest, options_.max_record_bytes);
  EXPECT_GT(longest, options_.max_record_bytes / 3) << "the room is used";
}

TEST_F(Members, WhoLeavesACompleteRunHasLeftForOtherCoordinatorsToo) {
  begin(3);
  for (uint64_t round = 0; round < 10; ++round) {
    for (int member = 0; member < 3; ++member) offer(member, round);
  }
  deliver({Report{1, {}, {}}, LeaveNotice{1}});
  EXPECT_EQ(member(1).phase, Phase::kLeft);
  wait(200);
  EXPECT_EQ(member(0).phase, Phase::kActive) << "silence is no loss any more";
  deliver({JoinRequest{key(1), {}, 0}});
  wait(1);
  EXPECT_EQ(member(1).phase, Phase::kCatchingUp);
}

TEST_F(Members, ACoordinatorThatStartsAgainLeadsAtOnce) {
  begin(3);
  coordinator_ = make(0, false);
  std::vector<Input> inputs = {StoreConnected{ledger_.last()}};
  for (uint64_t record = 1; record <= ledger_.last(); ++record) {
    inputs.emplace_back(RecordRead{*ledger_.read(record)});
  }
  deliver(inputs);
  EXPECT_TRUE(coordinator_->leads());
  coordinator_ = make(1, false);
  deliver(inputs);
  EXPECT_FALSE(coordinator_->leads()) << "another one was there before it";
}

// A member that was away offers it again before it has read that it counted.
TEST_F(Members, AnOfferThatHasCountedIsNotRefusedLater) {
  begin(3);
  for (uint64_t round = 0; round < 4; ++round) {
    for (const int member : {0, 1, 2}) offer(member, round);
  }
  ASSERT_EQ(state().next_round, 5u);
  deliver({Offer{1, 1, state().epoch, 0, hash_of(101), 10, {}}});
  EXPECT_TRUE(refusals_.empty()) << refusals_.front();
  deliver({Offer{1, 1, state().epoch, 0, hash_of(999), 10, {}}});
  EXPECT_EQ(refusals_.size(), 1u) << "of another payload";
}

TEST_F(Members, OffersThatDoNotFitAreRefused) {
  begin(3);
  const auto refused = [this](const Offer& offer) {
    deliver({offer});
    return refusals_.empty() ? "" : refusals_.back();
  };
  EXPECT_THAT(refused({0, 5, 0, 0, {}, 10, {}}), HasSubstr("round 5 is not open"));
  EXPECT_THAT(refused({0, 0, 3, 0, {}, 10, {}}), HasSubstr("is of epoch 0, not 3"));
  EXPECT_THAT(refused({0, 0, 0, 4, {}, 10, {}}), HasSubstr("no such fragment"));
  for (const uint64_t bytes : {uint64_t{1001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_THAT(refused({0, 0, 0, 0, {}, bytes, {}}),
                HasSubstr(fmt::format("it has {} bytes, and may have 1000", bytes)));
  }
  offer(0, 0);
  EXPECT_THAT(refused({0, 0, 0, 0, hash_of(9), 10, {}}), HasSubstr("another one"));
}

TEST_F(Members, WhoLeavesOrIsSilentHoldsNobodyUp) {
  begin(3);
  offer(0, 0);
  deliver({LeaveNotice{1}});
  EXPECT_EQ(member(1).phase, Phase::kLeft);
  EXPECT_FALSE(last_record().closing);
  wait(4.5, {0});
  EXPECT_FALSE(last_record().closing);
  wait(1, {0});  // member 2 has been silent for 5.5 s
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, (std::vector{1, 2}));
  EXPECT_EQ(member(2).phase, Phase::kLate);
  wait(20, {0});
  EXPECT_EQ(member(2).phase, Phase::kLost);
}

TEST_F(Members, AReturningOneKeepsItsIdAndReplaysWhatItMissed) {
  begin(3);
  const Position before = state().position;
  deliver({LeaveNotice{2}});
  offer(0, 0);
  offer(1, 0);
  deliver({JoinRequest{key(2), before, 0}});
  EXPECT_EQ(state().members.size(), 3u);
  EXPECT_EQ(member(2).phase, Phase::kCatchingUp);
  EXPECT_EQ(member(2).snapshot, std::nullopt);
}

// With a checkpoint from before the round that is open.
TEST_F(Members, AnActiveOneThatStartsAgainBehindIsNotWaitedFor) {
  begin(3);
  const Position before = state().position;
  for (int one = 0; one < 3; ++one) offer(one, 0);
  deliver({JoinRequest{key(1), state().position, 0}});
  EXPECT_EQ(member(1).phase, Phase::kActive) << "it goes on in the round that is open";
  deliver({JoinRequest{key(2), before, 0}});
  EXPECT_EQ(member(2).phase, Phase::kLate);
  for (int one = 0; one < 2; ++one) offer(one, 1);
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
  report(2);
  for (int one = 0; one < 2; ++one) offer(one, 2);
  EXPECT_EQ(member(2).phase, Phase::kActive);
}

TEST_F(Members, ALostOneThatStartsAgainBehindIsNotWaitedFor) {
  begin(3);
  const Position before = state().position;
  for (int one = 0; one < 3; ++one) offer(one, 0);
  wait(26, {0, 1});
  ASSERT_EQ(member(2).phase, Phase::kLost);
  deliver({JoinRequest{key(2), before, 0}});
  ASSERT_EQ(member(2).phase, Phase::kCatchingUp);
  for (int one = 0; one < 2; ++one) offer(one, 1);
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

class Lost : public CoordinatorCase {
 protected:
  // Member 2 of three is lost.
  void lose_one() {
    begin(3);
    wait(26, {0, 1});
    ASSERT_EQ(member(2).phase, Phase::kLost);
  }
};

// Nobody said anything to the coordinator that was just started.
TEST_F(Lost, ReturnsToACoordinatorThatStartedOnlyOnceItIsHeard) {
  lose_one();
  restart();
  for (int one = 0; one < 2; ++one) report(one);
  wait(2);
  EXPECT_EQ(member(2).phase, Phase::kLost);
  report(2);
  EXPECT_EQ(member(2).phase, Phase::kCatchingUp);
}

TEST_F(Lost, DoesNotReturnBecauseTheStoreIsBack) {
  lose_one();
  deliver({StoreDisconnected{}});
  deliver({StoreConnected{ledger_.last()}});
  for (int one = 0; one < 2; ++one) report(one);
  wait(2);
  EXPECT_EQ(member(2).phase, Phase::kLost);
}

TEST_F(Members, OneThatIsDismissedIsExcludedWithoutAnOffence) {
  begin(3);
  deliver({Dismissed{key(1)}, Dismissed{key(9)}});
  EXPECT_EQ(member(1).phase, Phase::kExcluded);
  EXPECT_EQ(member(1).offences(), 0u);
  offer(0, 0);
  offer(2, 0);
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{1});
}

TEST_F(Members, OneOfAnotherHistoryBeginsAnew) {
  begin(3);
  Position other = state().position;
  other.hash = hash_of(99);
  deliver({Report{1, other, {}}});
  EXPECT_EQ(member(1).phase, Phase::kCatchingUp);
  EXPECT_EQ(member(1).snapshot, 0u);
}

TEST_F(Members, TheMinorityOfDigestsBeginsAnew) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  report(0, AgreedDigest{0, 5});
  report(1, AgreedDigest{0, 6});
  EXPECT_EQ(member(1).phase, Phase::kCatchingUp);  // two differ: the first one counts
  report(2, AgreedDigest{0, 6});
  EXPECT_EQ(state().agreed_digests.at(0), 5u);
  EXPECT_EQ(member(2).snapshot, 0u);
}

// Else the others would start over for ever, and always differ again.
TEST_F(Members, AWrongDigestOfAFewIsOutvoted) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  for (int one = 1; one < 3; ++one) deliver({LeaveNotice{one}});
  report(0, AgreedDigest{0, 5});
  ASSERT_EQ(state().agreed_digests.at(0), 5u);
  for (int one = 1; one < 3; ++one) deliver({JoinRequest{key(one), state().position, 0}});
  for (int one = 1; one < 3; ++one) report(one, AgreedDigest{0, 6});
  for (int one = 0; one < 3; ++one) offer(one, 1);  // round 2 opens with all of them
  EXPECT_EQ(state().agreed_digests.at(0), 6u);
  EXPECT_EQ(member(0).phase, Phase::kCatchingUp);
  EXPECT_EQ(member(1).phase, Phase::kActive);
  EXPECT_EQ(member(2).phase, Phase::kActive);
}

TEST_F(Members, AnOffenderIsExcludedForGood) {
  begin(3);
  deliver({Misconduct{1, "not finite"}});
  deliver({Misconduct{1, "not finite"}});
  EXPECT_EQ(member(1).phase, Phase::kActive);
  deliver({Misconduct{1, "not finite"}});
  EXPECT_EQ(member(1).phase, Phase::kExcluded);
  deliver({JoinRequest{key(1), {}, 0}});
  EXPECT_THAT(refusals_.back(), HasSubstr("excluded"));
  offer(0, 0);
  offer(2, 0);
  EXPECT_EQ(last_record().closing->missing, std::vector{1});
}

TEST_F(Members, ALinkThatCannotCatchUpIsToldTheFigures) {
  begin(3);
  for (uint64_t round = 0; round < 2; ++round) {
    wait(10);
    for (int one = 0; one < 3; ++one) offer(one, round);
  }
  deliver({JoinRequest{key(3), {}, 2}});  // 30 bytes in 10 s are 3 a second
  EXPECT_EQ(member(3).phase, Phase::kWaiting);
  EXPECT_THAT(refusals_.back(), HasSubstr("2 B a second, but the run produces 3 B a second"));
  deliver({JoinRequest{key(3), {}, 4}});
  EXPECT_EQ(member(3).phase, Phase::kCatchingUp);
}

TEST_F(Members, ASnapshotCountsOnceItsDigestIsAgreedOn) {
  options_.snapshot_every = 1;
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  ASSERT_TRUE(std::holds_alternative<AskSnapshot>(asked_.back()));
  const uint64_t at = state().position.sequence;
  const Sha256 record = state().position.hash;
  deliver({SnapshotReady{{0, at, hash_of(60), 500}, {0, 5}, record}});
  EXPECT_FALSE(state().snapshots.contains(at));
  report(0, AgreedDigest{0, 5});
  report(1, AgreedDigest{0, 5});
  EXPECT_TRUE(state().snapshots.at(at).holders.contains(0));
  const Sha256 next = state().position.hash;
  deliver({SnapshotReady{{2, at + 1, hash_of(61), 500}, {0, 6}, next}});
  EXPECT_FALSE(state().snapshots.contains(at + 1));
}

// The digest is agreed on with both of them there, and one record cannot hold both.
TEST_F(Members, OfTwoSnapshotsThatDifferTheFirstCounts) {
  options_.snapshot_every = 1;
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  const uint64_t at = state().position.sequence;
  const Sha256 record = state().position.hash;
  deliver({SnapshotReady{{0, at, hash_of(60), 500}, {0, 5}, record}});
  deliver({SnapshotReady{{1, at, hash_of(61), 500}, {0, 5}, record}});
  for (const int one : {0, 1}) report(one, AgreedDigest{0, 5});
  ASSERT_TRUE(state().snapshots.contains(at));
  EXPECT_EQ(state().snapshots.at(at).content, hash_of(60));
  EXPECT_EQ(state().snapshots.at(at).holders.size(), 1u);
}

// Behind a thin line it takes long to store, and another one's would not be there sooner.
TEST_F(Members, ASnapshotHasHalfOfItsRoundsToCome) {
  plan_ = FakePlan(0, 1, 100);
  options_.snapshot_every = 8;
  begin(3);
  const auto rounds = [this](uint64_t first, uint64_t end) {
    for (uint64_t round = first; round < end; ++round) {
      for (int one = 0; one < 3; ++one) offer(one, round);
    }
  };
  rounds(0, 8);
  ASSERT_EQ(asked_snapshots().size(), 1u);
  for (int i = 0; i < 20; ++i) {
    wait(2);
    for (int one = 0; one < 3; ++one) report(one);
  }
  rounds(8, 11);
  EXPECT_EQ(asked_snapshots().size(), 1u);
  rounds(11, 13);
  EXPECT_EQ(asked_snapshots().size(), 2u);
  deliver({LeaveNotice{asked_snapshots().back()}});
  ASSERT_EQ(asked_snapshots().size(), 3u) << "who was asked is gone";
  EXPECT_NE(asked_snapshots()[2], asked_snapshots()[1]);
}

// Who catches up may need payloads of members that are gone, which the store has lost.
class LackingMembers : public Members {
 protected:
  void SetUp() override {
    plan_ = FakePlan(0, 1, 100);
    options_.snapshot_every = 30;  // if somebody lacks something, 3
    begin(3);
    close_rounds(0, 4);
    deliver({JoinRequest{key(3), {}, 0}});
    ASSERT_EQ(member(3).phase, Phase::kCatchingUp);
    ASSERT_EQ(member(3).snapshot, 0u);
  }

  void close_rounds(uint64_t first, uint64_t end) {
    for (uint64_t round = first; round < end; ++round) {
      for (int one = 0; one < 3; ++one) offer(one, round);
    }
  }
  // Member 3 is at `position`, and lacks something if it says so.
  void pass(double seconds, std::optional<Position> position, bool says_so = true) {
    for (const double until = now_ + seconds; now_ < until;) {
      wait(2.5);
      for (int one = 0; one < 3; ++one) report(one);
      deliver({Report{3, position, {}}});
      if (says_so) deliver({Lacks{3}});
    }
  }
};

TEST_F(LackingMembers, AMemberThatLacksWhatNobodyStoresAgainGetsANewerSnapshot) {
  pass(25, {});
  EXPECT_TRUE(asked_snapshots().empty()) << "it may still be stored again";
  pass(5, {});
  ASSERT_EQ(asked_snapshots().size(), 1u);
  const uint64_t at = state().position.sequence;
  const Sha256 record = state().position.hash;
  for (int one = 0; one < 3; ++one) report(one, AgreedDigest{3, 5});
  deliver({SnapshotReady{{asked_snapshots().front(), at, hash_of(60), 500}, {3, 5}, record}});
  ASSERT_TRUE(state().snapshots.contains(at));
  EXPECT_EQ(member(3).snapshot, at);
  pass(60, {});
  EXPECT_EQ(asked_snapshots().size(), 1u) << "there is nothing that is newer";
  close_rounds(4, 7);
  pass(60, {});
  EXPECT_EQ(asked_snapshots().size(), 2u);
}

TEST_F(LackingMembers, NobodyIsAskedWhileTheMemberGoesOn) {
  for (uint64_t record = 1; record < 8; ++record) {
    pass(20, Position{record, record_hash(*ledger_.read(record))});
  }
  EXPECT_TRUE(asked_snapshots().empty());
}

TEST_F(LackingMembers, NobodyIsAskedOnceTheMemberLacksNothingMore) {
  for (int i = 0; i < 4; ++i) {
    pass(20, {});
    pass(15, {}, false);
  }
  EXPECT_TRUE(asked_snapshots().empty());
}

// Something that it needs no longer.
TEST_F(LackingMembers, NobodyIsAskedForAMemberThatIsUpToDate) {
  pass(60, state().position);
  EXPECT_TRUE(asked_snapshots().empty());
}

// As after a power cut: the record of its number is another one now.
TEST_F(Members, ASnapshotOfAnotherHistoryDoesNotCount) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  const uint64_t at = state().position.sequence;
  for (int one = 0; one < 3; ++one) report(one, AgreedDigest{0, 5});
  ASSERT_TRUE(state().agreed_digests.contains(0));
  deliver({SnapshotReady{{0, at, hash_of(60), 500}, {0, 5}, hash_of(61)}});
  EXPECT_FALSE(state().snapshots.contains(at));
}

// Otherwise nothing would happen until it says so once more.
TEST_F(Members, APositionCountsOnceItsRecordIsRead) {
  coordinator_ = make(0, false);
  deliver({StoreConnected{0}});
  for (int one = 0; one < 3; ++one) deliver({JoinRequest{key(one), {}, 0}});
  wait(2);
  for (int one = 0; one < 2; ++one) report(one);
  // The record of an admission is on its way, and member 2 has read it already.
  const std::vector<Input> join{JoinRequest{key(3), {}, 0}};
  const std::vector<Action> actions = coordinator_->tick(join, now_);
  const Bytes record = std::get<Append>(actions.back()).record;
  deliver({Report{2, Position{state().position.sequence + 1, record_hash(record)}, {}}});
  EXPECT_EQ(state().next_round, 0u);
  ASSERT_EQ(ledger_.append(state().position.sequence, record), MemoryLedger::Outcome::kStored);
  deliver({RecordRead{record}});
  EXPECT_EQ(state().next_round, 1u);
}

}  // namespace
}  // namespace thinwire::membership
