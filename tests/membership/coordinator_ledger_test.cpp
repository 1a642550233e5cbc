// What a coordinator does when records are lost, repeated, claimed or written by others.
#include <gmock/gmock.h>

#include "coordinator_case.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::membership {
namespace {

using testing::HasSubstr;

using Ledger = CoordinatorCase;

// The store was away for a moment.
class Outage : public CoordinatorCase {
 protected:
  // Afterwards one of three members leaves, and there is something to record. Returns the last
  // record of before.
  uint64_t pass() {
    begin(3);
    deliver({StoreDisconnected{}});
    deliver({StoreConnected{ledger_.last()}});
    const uint64_t last = ledger_.last();
    deliver({LeaveNotice{2}});
    return last;
  }
};

TEST_F(Ledger, IsTheWholeState) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0, 1);
  std::vector<Bytes> records;
  for (uint64_t at = 1; at <= ledger_.last(); ++at) records.push_back(*ledger_.read(at));
  const Result<State> state = Coordinator::replay(records, fake_verify);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, coordinator_->state());
  records.erase(records.begin() + 1);
  EXPECT_THAT(Coordinator::replay(records, fake_verify).error().message,
              HasSubstr("record 3 does not follow record 1"));
}

TEST_F(Ledger, AStandbyTakesOverAndTheFirstOneYields) {
  begin(3);
  auto standby = make(1, true);
  std::vector<Input> stream = {StoreConnected{ledger_.last()}};
  for (uint64_t at = 1; at <= ledger_.last(); ++at)
    stream.emplace_back(RecordRead{*ledger_.read(at)});
  for (int one = 0; one < 3; ++one) stream.emplace_back(Report{one, state().position, {}});
  standby->tick(stream, now_);
  standby->tick(std::vector<Input>{LeaveNotice{2}}, now_ + 2);
  for (double at = 3; at <= 13; ++at) EXPECT_TRUE(standby->tick({}, now_ + at).empty());
  const std::vector<Action> actions = standby->tick({}, now_ + 15);
  ASSERT_EQ(actions.size(), 1u);
  const auto append = std::get<Append>(actions.front());
  EXPECT_EQ(ledger_.append(append.expected_last, append.record), MemoryLedger::Outcome::kStored);
  standby->tick(std::vector<Input>{RecordRead{append.record}}, now_ + 15);
  EXPECT_TRUE(standby->leads());

  deliver({LeaveNotice{1}});  // the first one is refused, for it does not know the record
  EXPECT_EQ(ledger_.last(), append.expected_last + 1);
  deliver({RecordRead{append.record}});
  EXPECT_FALSE(coordinator_->leads());
  EXPECT_EQ(state(), standby->state());
}

TEST_F(Outage, IsSaidToBeTheStoresOnlyIfTheStoreWasAway) {
  pass();
  EXPECT_EQ(coordinator_->waits_for(),
            "members to report what they have, since the store was away");
  deliver({StoreDisconnected{}});
  EXPECT_EQ(coordinator_->waits_for(), "the store, which cannot be reached");
  const auto next = make(0, false);
  std::vector<Input> stream;
  for (uint64_t at = 1; at <= ledger_.last(); ++at)
    stream.emplace_back(RecordRead{*ledger_.read(at)});
  next->tick(stream, now_);
  EXPECT_EQ(next->waits_for(), "the run's records, which the coordinator reads from the store");
  next->tick(std::vector<Input>{StoreConnected{ledger_.last()}}, now_);
  EXPECT_EQ(next->waits_for(), "members to report what they have, since the coordinator was away");
}

TEST_F(Ledger, AnAppendWithoutAnswerIsRepeatedAsItWas) {
  begin(3);
  const auto first = coordinator_->tick(std::vector<Input>{LeaveNotice{1}}, now_);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(coordinator_->tick({}, now_ + 2).empty());
  const auto second = coordinator_->tick({}, now_ + 3);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(std::get<Append>(first[0]).record, std::get<Append>(second[0]).record);
}

// A new coordinator, whose folder remembers a record, and a store that has the first `count`
// records of a run with three members in round 0.
class OlderStore : public CoordinatorCase {
 protected:
  void roll_back(uint64_t count) {
    begin(3);
    for (int one = 0; one < 3; ++one) offer(one, 0);
    for (uint64_t at = 1; at <= ledger_.last(); ++at) records_.push_back(*ledger_.read(at));
    before_ = state().position;
    ASSERT_GT(before_.sequence, count + 2);
    ledger_ = {};
    for (uint64_t at = 0; at < count; ++at) ledger_.append(at, records_[at]);
  }
  void start(const Position& remembered) {
    coordinator_ = make(0, false, remembered);
    std::vector<Input> stream;
    for (uint64_t at = 1; at <= ledger_.last(); ++at)
      stream.emplace_back(RecordRead{*ledger_.read(at)});
    stream.emplace_back(StoreConnected{ledger_.last()});
    deliver(stream);
  }
  std::vector<Bytes> from(uint64_t sequence) const {
    return {records_.begin() + static_cast<ptrdiff_t>(sequence - 1), records_.end()};
  }

  std::vector<Bytes> records_;
  Position before_;
};

TEST_F(OlderStore, ThatIsEmptyDoesNotBeginTheRunAnew) {
  roll_back(0);
  start(before_);
  deliver({JoinRequest{key(7), {}, 0}});
  EXPECT_THAT(notices_, testing::ElementsAre(HasSubstr("has lost the run's records 1 to ")));
  wait(24);
  EXPECT_EQ(halted_, "");
  wait(2);
  EXPECT_THAT(halted_, HasSubstr("The run is not begun anew"));
  EXPECT_EQ(ledger_.last(), 0u);
}

TEST_F(OlderStore, ThatIsEmptyIsFilledByWhoWasThere) {
  roll_back(0);
  start(before_);
  deliver({Report{1, before_, {}}});  // it does not know that the ledger does not know it any more
  const auto asked = std::get<AskRecords>(asked_.back());
  EXPECT_EQ(asked.member, 1);
  EXPECT_EQ(asked.first, 1u);
  deliver({Supply{1, from(1)}});
  EXPECT_EQ(state().position, before_);
  EXPECT_EQ(state().members.size(), 3u);
  EXPECT_THAT(notices_.back(), HasSubstr("members gave back the run's records 1 to "));
  for (int one = 0; one < 3; ++one) report(one);
  for (int one = 0; one < 3; ++one) offer(one, 1);
  wait(2);
  EXPECT_GT(ledger_.last(), before_.sequence) << "the run goes on";
  EXPECT_EQ(halted_, "");
}

TEST_F(OlderStore, ThatEndsBeforeWhatTheFolderRemembersIsNotContinued) {
  roll_back(3);
  start(before_);
  for (int one = 0; one < 3; ++one) report(one);
  deliver({LeaveNotice{2}});
  wait(24);
  EXPECT_EQ(ledger_.last(), 3u);
  wait(2);
  EXPECT_THAT(halted_, HasSubstr("has lost the run's records 4 to "));
}

TEST_F(OlderStore, OfAnotherHistoryThanTheFoldersIsNotContinued) {
  roll_back(3);
  start({2, hash_of(99)});
  EXPECT_THAT(halted_, HasSubstr("its record 2 is not the one that was there before"));
  EXPECT_EQ(ledger_.last(), 3u);
}

TEST_F(OlderStore, OfBeforeAMemberJoinedIsFilledByIt) {
  roll_back(1);
  start({});  // the folder is as old
  deliver({JoinRequest{key(0), before_, 0}});
  EXPECT_EQ(ledger_.last(), 1u) << "it is not admitted again";
  const auto asked = std::get<AskRecords>(asked_.back());
  EXPECT_EQ(asked.member, AskRecords::kStrangers);
  deliver({Supply{AskRecords::kStrangers, from(asked.first)}});
  EXPECT_EQ(state().position, before_);
  EXPECT_THAT(notices_.front(), HasSubstr("is an older copy"));
}

TEST_F(OlderStore, IsContinuedOnceAllHaveReportedWhatTheyHave) {
  roll_back(3);
  const std::vector<Bytes> records = records_;
  start({});
  // What two of three have ends one record before what the third has.
  const Position earlier =
      Coordinator::replay(std::span(records).first(records.size() - 1), fake_verify)->position;
  deliver({Report{1, earlier, {}}, Report{2, earlier, {}}});
  std::vector<Bytes> known = from(4);
  known.pop_back();
  deliver({Supply{1, known}});
  EXPECT_EQ(state().position, earlier);
  for (int waited = 0; waited < 20; ++waited) {
    for (int one : {1, 2}) report(one);
    deliver({LeaveNotice{2}});
    wait(1);
  }
  EXPECT_EQ(state().position, earlier);
  deliver({Report{0, before_, {}}});
  deliver({Supply{0, from(before_.sequence)}});
  EXPECT_EQ(*ledger_.read(before_.sequence), records.back());
  for (int one = 0; one < 3; ++one) report(one);
  for (int one = 0; one < 3; ++one) offer(one, 1);
  wait(2);
  EXPECT_GT(ledger_.last(), before_.sequence) << "the run goes on";
}

TEST_F(OlderStore, IsNotContinuedWhereAMemberShowsThatRecordsAreLost) {
  roll_back(3);
  start({});
  for (double waited = 0; waited < 27; waited += 0.5) {
    deliver({Report{0, before_, {}}, Report{1, state().position, {}},
             Report{2, state().position, {}},
             Supply{0, from(before_.sequence)}});  // what came between is too long ago for it
    wait(0.5);
  }
  EXPECT_THAT(halted_, HasSubstr("nobody has those between"));
  EXPECT_EQ(ledger_.last(), 3u);
}

TEST_F(OlderStore, ThatWasContinuedLeavesOutWhoIsOnTheHistoryOfBefore) {
  roll_back(3);
  start({});
  for (int one : {1, 2}) report(one);
  deliver({LeaveNotice{2}});
  wait(26, {1});
  const uint64_t last = ledger_.last();
  ASSERT_GT(last, 3u);
  deliver({Report{0, before_, {}}});
  deliver({Report{0, before_, {}}, Supply{0, from(last + 1)}});
  EXPECT_EQ(halted_, "");
  EXPECT_THAT(refusals_.back(), HasSubstr("of another history of the run"));
  EXPECT_EQ(*ledger_.read(4) == records_[3], false);
  EXPECT_EQ(member(0).phase, Phase::kCatchingUp);
}

// Records 1 to 5, of which the store loses two and a new coordinator knows nothing.
TEST_F(Ledger, WhatTheStoreLostMembersGiveBack) {
  begin(3);
  ledger_.sync();
  deliver({LeaveNotice{2}});
  const std::vector<Bytes> lost = ledger_.cut_power();
  ASSERT_EQ(lost.size(), 1u);
  const Position before = state().position;
  coordinator_ = make(0, false);
  std::vector<Input> stream = {StoreConnected{ledger_.last()}};
  for (uint64_t at = 1; at <= ledger_.last(); ++at)
    stream.emplace_back(RecordRead{*ledger_.read(at)});
  deliver(stream);
  deliver({Report{1, state().position, {}}});
  deliver({Report{0, before, {}}});
  ASSERT_FALSE(asked_.empty());
  const auto asked = std::get<AskRecords>(asked_.back());
  EXPECT_EQ(asked.member, 0);
  EXPECT_EQ(asked.first, before.sequence);
  deliver({Supply{0, lost}});
  EXPECT_EQ(state().position, before);
  EXPECT_EQ(*ledger_.read(ledger_.last()), lost.front());
}

TEST_F(Ledger, WhoDoesNotSupplyWhatItClaimsIsIgnored) {
  begin(3);
  const uint64_t last = ledger_.last();
  const Position claimed{last + 5, hash_of(98)};
  deliver({LeaveNotice{0}, Report{1, claimed, {}}, Report{2, claimed, {}}});
  for (double waited = 0; waited < 24; waited += 0.5) {
    wait(0.5);
    deliver({Report{1, claimed, {}}, Report{2, claimed, {}}});
    ASSERT_EQ(ledger_.last(), last);
  }
  wait(2);  // they were asked one after the other
  deliver({Report{1, claimed, {}}, Report{2, claimed, {}}});
  EXPECT_EQ(member(0).phase, Phase::kLeft);
  EXPECT_EQ(member(1).phase, Phase::kCatchingUp);  // it has nothing of use
  EXPECT_EQ(member(1).snapshot, 0u);
  deliver({JoinRequest{key(3), {}, 0}});
  EXPECT_EQ(state().members.size(), 4u);  // and nobody waits for it any more
}

TEST_F(Ledger, AllThatClaimLostRecordsAreAskedInTurn) {
  begin(3);
  const uint64_t last = ledger_.last();
  deliver({Report{0, Position{last + 1, hash_of(97)}, {}}, Report{1, Position{last + 9, {}}, {}}});
  asked_.clear();
  for (int i = 0; i < 4; ++i) wait(0.5);
  std::vector<int> asked;
  for (const Action& action : asked_) asked.push_back(std::get<AskRecords>(action).member);
  EXPECT_EQ(asked, (std::vector{0, 1, 0, 1}));
}

TEST_F(Ledger, PartsThatArriveKeepNobodyElseFromBeingAsked) {
  begin(3);
  const uint64_t last = ledger_.last();
  deliver({Report{0, Position{last + 1, hash_of(97)}, {}}, Report{1, Position{last + 9, {}}, {}}});
  asked_.clear();
  const std::vector<Bytes> parts = messages_of(Bytes(kMaxRecordMessage + 1));
  for (int i = 0; i < 4; ++i) {
    deliver({Supply{1, {parts.front()}}});
    wait(0.5);
  }
  std::vector<int> asked;
  for (const Action& action : asked_) asked.push_back(std::get<AskRecords>(action).member);
  EXPECT_EQ(asked, (std::vector{0, 1, 0, 1}));
}

TEST_F(Outage, NothingNewIsWrittenBeforeMembersSaidWhatTheyHave) {
  const uint64_t last = pass();
  report(0);
  wait(2);
  EXPECT_EQ(ledger_.last(), last);
  report(1);
  EXPECT_EQ(ledger_.last(), last);  // the one that leaves has not reported its position
  wait(25);
  EXPECT_GT(ledger_.last(), last);
}

TEST_F(Outage, OnceMostMembersSaidWhatTheyHaveThoseThatAreAbsentAreNotWaitedForLong) {
  const uint64_t last = pass();
  report(0);
  report(1);
  wait(5);
  EXPECT_EQ(ledger_.last(), last);
  wait(0.5);
  EXPECT_GT(ledger_.last(), last);
}

// Of two members one is dead.
TEST_F(Ledger, OneOfTwoIsEnoughForACoordinatorThatStartedOnceTheOtherIsAbsent) {
  begin(3);
  deliver({LeaveNotice{2}});
  restart();
  const uint64_t last = ledger_.last();
  report(0);
  deliver({JoinRequest{key(3), {}, 0}});
  wait(5);
  EXPECT_EQ(ledger_.last(), last);
  wait(0.5);
  EXPECT_GT(ledger_.last(), last);
}

// It has missed a record that the others have.
TEST_F(Ledger, WhoMissedTheLastRoundIsNotWaitedForAfterAStart) {
  begin(3);
  deliver({Departed{key(2)}});
  offer(0, 0);
  offer(1, 0);
  wait(1);
  ASSERT_EQ(member(2).phase, Phase::kLate);
  restart();
  const uint64_t last = ledger_.last();
  for (int one = 0; one < 2; ++one) report(one);
  deliver({JoinRequest{key(3), {}, 0}});
  EXPECT_EQ(ledger_.last(), last);
  wait(1);
  EXPECT_GT(ledger_.last(), last);
}

TEST_F(Outage, AMinoritySayingWhatItHasIsNotEnough) {
  const uint64_t last = pass();
  report(0);
  wait(24);
  EXPECT_EQ(ledger_.last(), last);
  wait(1);
  EXPECT_GT(ledger_.last(), last);
}

TEST_F(Ledger, RecordsOfStrangersDoNotCount) {
  begin(3);
  Record record;
  record.sequence = state().position.sequence + 1;
  record.previous = state().position.hash;
  record.writer = signers_[2].key();
  record.changes = {Offence{0, {}}};
  const Position before = state().position;
  deliver({RecordRead{encode_record(record, signers_[2])}});
  EXPECT_EQ(state().position, before);
  Bytes forged = encode_record(record, signers_[2]);
  std::ranges::copy(signers_[0].key().bytes, forged.begin() + 46);
  deliver({RecordRead{forged}});
  EXPECT_EQ(state().position, before);
}

// Not even as a sign that the history is another one, or that it is longer.
TEST_F(Ledger, RecordsOfStrangersDoNotChangeItsHistory) {
  begin(3);
  const Position before = state().position;
  asked_.clear();
  Record record;
  record.writer = signers_[2].key();
  for (const uint64_t sequence : {uint64_t{0}, before.sequence, before.sequence + 1, UINT64_MAX}) {
    record.sequence = sequence;
    deliver({RecordRead{encode_record(record, signers_[2])}});
    EXPECT_EQ(state().position, before) << sequence;
  }
  EXPECT_TRUE(asked_.empty()) << "it is not read again";
  for (const int one : {0, 1, 2}) offer(one, 0);
  EXPECT_EQ(last_record().closing->round, 0u);
}

}  // namespace
}  // namespace thinwire::membership
