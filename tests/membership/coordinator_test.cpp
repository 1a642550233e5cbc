#include "thinwire/membership/coordinator.h"

#include "coordinator_case.h"

namespace thinwire::membership {
namespace {

using Rounds = CoordinatorCase;

TEST_F(Rounds, TheFirstOpensWhenTheWorkersAreThere) {
  coordinator_ = make(0, false);
  deliver({StoreConnected{0}});
  for (int one = 0; one < 3; ++one) deliver({JoinRequest{key(one), {}, 0}});
  wait(2);
  report(0);
  report(1);
  EXPECT_TRUE(state().open.empty());
  report(2);
  ASSERT_EQ(state().open.size(), 1u);
  EXPECT_EQ(roster(state().open.front()), (std::vector{0, 1, 2}));
  EXPECT_EQ(batch_of(state().open.front()), plan_.batch());
}

TEST_F(Rounds, TheNextOpensInTheRecordThatClosesOne) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  const Record record = last_record();
  ASSERT_TRUE(record.closing);
  ASSERT_EQ(record.openings.size(), 1u);
  EXPECT_EQ(record.closing->round, 0u);
  EXPECT_EQ(record.openings.front().round, 1u);
  const Commit& commit = record.closing->commits.front();
  ASSERT_EQ(commit.contributions.size(), 3u);
  EXPECT_EQ(commit.contributions[1].payload, hash_of(1));
  EXPECT_EQ(commit.scale, 1.0f / 16);  // two steps of eight rows
}

TEST_F(Rounds, OnlyBytesThatTheStoreHasAreCommitted) {
  begin(3);
  for (int one = 0; one < 3; ++one) {
    deliver({Offer{one, 0, 0, 0, hash_of(50 + one), 10, {}}});
  }
  EXPECT_FALSE(last_record().closing);
  for (uint64_t one = 0; one < 3; ++one) deliver({Acknowledged{hash_of(50 + one)}});
  EXPECT_TRUE(last_record().closing);
}

TEST_F(Rounds, WithoutAQuorumAllThatArePresentAreWaitedFor) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  for (int i = 0; i < 39; ++i) {
    wait(2.5);
    for (int one = 0; one < 3; ++one) report(one);
  }
  EXPECT_FALSE(last_record().closing);
  wait(2.5);
  ASSERT_TRUE(last_record().closing);  // at the time-out
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
  EXPECT_EQ(member(2).phase, Phase::kLate);
}

// However long a round takes: only the first member has finished it.
TEST_F(Rounds, OneThatTakesLongerThanTheTimeOutIsNotCutShort) {
  begin(3);
  const auto present = [this](double seconds) {
    for (; seconds > 0; seconds -= 2.5) {
      wait(2.5);
      for (int one = 0; one < 3; ++one) report(one);
    }
  };
  present(300);
  offer(0, 0);
  present(95);
  EXPECT_FALSE(last_record().closing);
  present(10);
  EXPECT_TRUE(last_record().closing) << "the others take more than the time-out longer";
}

// The faster of two has more than half of the rows.
TEST_F(Rounds, OfTwoMembersEitherGoesOnAlone) {
  options_.shares = config::RowShares::kSpeed;
  begin(3);
  deliver({LeaveNotice{2}});
  offer(0, 0, 0.1);
  offer(1, 0, 1);
  ASSERT_EQ(roster(state().open.front()), (std::vector{0, 1}));
  ASSERT_LT(state().open.front().roster[1].rows.count, plan_.batch() / 2);
  deliver({Departed{key(0)}});
  offer(1, 1);
  EXPECT_EQ(state().open.front().round, 1u);
  wait(1);
  EXPECT_EQ(state().open.front().round, 2u);
  EXPECT_EQ(last_record().closing->missing, std::vector{0});
}

// From the first round on, after restarts of either, and after one comes back with another text;
// not whenever one says so.
TEST_F(Rounds, RowsFollowHowMuchTextMembersHave) {
  options_.shares = config::RowShares::kOwn;
  coordinator_ = make(0, false);
  deliver({StoreConnected{ledger_.last()}});
  for (const int one : {0, 1, 2}) deliver({JoinRequest{key(one), {}, 0, one == 2 ? 200u : 100u}});
  wait(2);
  for (const int one : {0, 1, 2}) report(one);
  const uint64_t quarter = plan_.batch() / 4;
  EXPECT_EQ(rows_of(state().open.front()), (std::vector{quarter, quarter, 2 * quarter}));
  restart();
  wait(2, {0, 1, 2});
  for (const int one : {0, 1, 2}) offer(one, 0, 0.1 * (one + 1));
  ASSERT_EQ(state().open.front().round, 1u);
  EXPECT_EQ(rows_of(state().open.front()), (std::vector{quarter, quarter, 2 * quarter}))
      << "whatever time they take";
  deliver({JoinRequest{key(0), state().position, 0, 400}});
  for (const int one : {0, 1, 2}) offer(one, 1);
  ASSERT_EQ(state().open.front().round, 2u);
  EXPECT_EQ(rows_of(state().open.front()), (std::vector{quarter, quarter, 2 * quarter}))
      << "it did not come back";
  deliver({LeaveNotice{1}});
  deliver({JoinRequest{key(1), state().position, 0, 200}});
  for (uint64_t round = 2; round < 4; ++round) {
    for (const int one : {0, 1, 2}) report(one);
    for (const int one : {0, 1, 2}) offer(one, round);
    for (const int one : {0, 1, 2}) report(one);
  }
  ASSERT_EQ(roster(state().open.front()), (std::vector{0, 1, 2}));
  EXPECT_FLOAT_EQ(member(1).rows_per_second, 200);
  EXPECT_EQ(rows_of(state().open.front())[1], rows_of(state().open.front())[2]);
}

// Nobody can check how much text a member has.
TEST_F(Rounds, WhoeverClaimsALotOfTextGetsFourTimesTheMedian) {
  options_.shares = config::RowShares::kOwn;
  coordinator_ = make(0, false);
  deliver({StoreConnected{ledger_.last()}});
  const std::vector<uint64_t> claims = {100, 100, 1'000'000'000};
  for (const int one : {0, 1, 2}) {
    deliver({JoinRequest{key(one), {}, 0, claims[static_cast<size_t>(one)]}});
  }
  wait(2);
  for (const int one : {0, 1, 2}) report(one);
  const std::vector<uint64_t> rows = rows_of(state().open.front());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_NEAR(static_cast<double>(rows[2]), static_cast<double>(plan_.batch()) * 4 / 6, 1);
  EXPECT_GT(rows[0], 0u);
}

TEST_F(Rounds, ThoseWhoMayContributeArePresentAndHaveTheReplica) {
  begin(3);
  const auto contributors = [this] {
    std::vector<int> members;
    for (int one = 0; one < 5; ++one) {
      if (coordinator_->may_contribute(one)) members.push_back(one);
    }
    return members;
  };
  deliver({JoinRequest{key(3), {}, 0}});
  EXPECT_EQ(contributors(), (std::vector{0, 1, 2})) << "member 3 is catching up";
  deliver({LeaveNotice{0}, Departed{key(1)}});
  EXPECT_EQ(contributors(), std::vector{2});
  wait(5.5, {1});
  EXPECT_EQ(contributors(), std::vector{1}) << "member 2 is silent";
}

// The store has had no record that it could have lost.
TEST_F(Rounds, ARunThatBeginsWaitsForNobodyWhoMayHaveRecords) {
  coordinator_ = make(0, false);
  deliver({StoreConnected{ledger_.last()}});
  for (int one = 0; one < 3; ++one) deliver({JoinRequest{key(one), {}, 0}});
  for (int one = 0; one < 3; ++one) report(one);
  EXPECT_EQ(state().next_round, 1u);
}

TEST_F(Rounds, AQuorumClosesAtTheAdaptiveDeadline) {
  options_.quorum = 0.6;
  begin(3);
  wait(10);
  report(1);
  offer(0, 0);
  wait(2);
  offer(1, 0);  // arrivals 10 and 12: median 11, MAD 1, deadline 11 + 4
  wait(2.5, {0, 1});
  EXPECT_FALSE(last_record().closing);
  wait(1, {0, 1});
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

// A hundredth of the time-out is more than a step.
TEST_F(Rounds, AQuorumWaitsForAPartOfAStepOnceStepsAreMeasured) {
  options_.quorum = 0.6;
  begin(3);
  for (uint64_t round = 0; round < 2; ++round) {
    wait(0.4);
    for (int one = 0; one < 3; ++one) offer(one, round);
  }
  ASSERT_EQ(state().open.front().round, 2u);
  wait(0.4);
  offer(0, 2);
  offer(1, 2);
  wait(0.08);
  EXPECT_EQ(state().open.front().round, 2u);
  wait(0.04);
  EXPECT_EQ(state().open.front().round, 3u);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

TEST_F(Rounds, ALateMemberHasNoRowsUntilItHasCaughtUp) {
  options_.quorum = 0.6;
  begin(3);
  offer(0, 0);
  offer(1, 0);
  wait(2);
  EXPECT_EQ(roster(state().open.front()), (std::vector{0, 1}));
  EXPECT_EQ(batch_of(state().open.front()), plan_.batch());
  report(2);
  offer(0, 1);
  offer(1, 1);
  EXPECT_EQ(roster(state().open.front()), (std::vector{0, 1, 2}));
  EXPECT_EQ(state().open.front().roster[2].since, 4u);  // the step that round 2 begins with
  EXPECT_EQ(state().open.front().roster[0].since, 0u);
}

TEST_F(Rounds, ALateContributionCountsAtItsFragmentsNextTurn) {
  options_.quorum = 0.6;
  options_.late_counts = true;
  begin(3);
  offer(0, 0);
  offer(1, 0);
  wait(2);
  deliver({Offer{2, 0, 0, 0, hash_of(77), 10, {}}});
  deliver({Acknowledged{hash_of(77)}});
  offer(0, 1);
  offer(1, 1);
  const Commit commit = last_record().closing->commits.front();
  ASSERT_EQ(commit.contributions.size(), 3u);
  EXPECT_EQ(commit.contributions[2].round, 0u);
  EXPECT_EQ(commit.contributions[2].payload, hash_of(77));
  deliver({Offer{2, 0, 0, 0, hash_of(77), 10, {}}});
  deliver({Acknowledged{hash_of(77)}});
  EXPECT_TRUE(refusals_.empty()) << "it has counted";
  for (const int member : {0, 1}) offer(member, 2);
  wait(2);
  const Record next = last_record();
  for (const Contribution& one : next.closing->commits.front().contributions) {
    EXPECT_EQ(one.round, 2u) << "and never again";
  }
}

TEST_F(Rounds, AnOfferForTheNextOneWaitsUntilItIsOpen) {
  begin(3);
  const Offer early{0, 1, 0, 0, hash_of(77), 10, {}};
  deliver({early});
  for (int one = 0; one < 3; ++one) offer(one, 0);
  ASSERT_EQ(state().open.front().round, 1u);
  EXPECT_EQ(std::get<AskStored>(asked_.back()).payload, hash_of(77));
  deliver({Acknowledged{hash_of(77)}});
  offer(1, 1);
  offer(2, 1);
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->round, 1u);
  EXPECT_EQ(last_record().closing->commits.front().contributions.size(), 3u);
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(Rounds, AnOfferForOneThatOpensAnewWaitsUntilThat) {
  begin(3);
  deliver({JoinRequest{key(3), {}, 0}});
  report(3);
  ASSERT_EQ(state().open.front().epoch, 0u);
  deliver({Offer{3, 0, 1, 0, hash_of(77), 10, {}}});
  EXPECT_TRUE(refusals_.empty());
  for (int one = 0; one < 3; ++one) deliver({LeaveNotice{one}});
  ASSERT_EQ(state().open.front().epoch, 1u);
  deliver({Acknowledged{hash_of(77)}});
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->round, 0u);
}

TEST_F(Rounds, OffersAreExpectedForThoseThatAreOpenAndThoseThatOpenNext) {
  begin(3);
  const auto expected = [&](int member, uint64_t round, uint32_t epoch, uint32_t fragment) {
    return coordinator_->is_expected({member, round, epoch, fragment, hash_of(77), 10, {}});
  };
  EXPECT_TRUE(expected(1, 0, 0, 0));
  EXPECT_TRUE(expected(1, 0, 1, 0)) << "it may open anew";
  EXPECT_TRUE(expected(1, 1, 0, 0));
  EXPECT_FALSE(expected(1, 2, 0, 0));
  EXPECT_FALSE(expected(1, 0, 2, 0));
  EXPECT_FALSE(expected(1, 0, 0, 9)) << "no such fragment";
  EXPECT_FALSE(expected(3, 0, 0, 0)) << "not in the roster";
  for (const int one : {0, 1, 2}) offer(one, 0);
  EXPECT_FALSE(expected(1, 0, 0, 0)) << "it is closed";
}

TEST_F(Rounds, AnOfferThatCountedMayBeRepeated) {
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  deliver({Offer{1, 0, 0, 0, hash_of(1), 10, {}}});
  EXPECT_TRUE(refusals_.empty());
  deliver({Offer{1, 0, 0, 0, hash_of(77), 10, {}}});
  EXPECT_EQ(refusals_.size(), 1u) << "that is another one";
}

TEST_F(Rounds, RowsFollowMeasuredSpeeds) {
  options_.shares = config::RowShares::kSpeed;
  begin(3);
  EXPECT_EQ(state().open.front().roster[0].rows.count, 2u);
  offer(0, 0, 1);
  offer(1, 0, 3);
  offer(2, 0, 3);
  // 4, 6 and 6 rows in 1, 3 and 3 seconds.
  const Opening& opening = state().open.front();
  EXPECT_EQ(opening.roster[0].rows.count, 4u);
  EXPECT_EQ(opening.roster[1].rows.count, 2u);
  EXPECT_EQ(opening.roster[2].rows.count, 2u);
}

TEST_F(Rounds, ThoseOfItsRosterWhoComeBackGoOnWithIt) {
  begin(3);
  wait(100);  // nobody is heard
  EXPECT_EQ(member(0).phase, Phase::kLost);
  report(0);
  report(1);
  EXPECT_EQ(member(0).phase, Phase::kCatchingUp);
  ASSERT_EQ(state().open.size(), 1u);
  EXPECT_EQ(state().open.front().epoch, 0u);
  offer(0, 0);
  EXPECT_EQ(state().last_closing, 0u) << "member 1 is awaited, too";
  offer(1, 0);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

TEST_F(Rounds, ADesertedOneOpensAnewForWhoeverIsThere) {
  begin(3);
  deliver({JoinRequest{key(3), {}, 0}});
  wait(26, {3});  // the others are silent
  EXPECT_EQ(member(0).phase, Phase::kLost);
  report(3);
  ASSERT_EQ(state().open.size(), 1u);
  EXPECT_EQ(state().open.front().round, 0u);
  EXPECT_EQ(state().open.front().epoch, 1u);
  EXPECT_EQ(roster(state().open.front()), std::vector{3});
}

TEST_F(Rounds, OneOpenedAnewStaysWithThoseWhoStartOverForIt) {
  begin(3);
  deliver({JoinRequest{key(3), {}, 0}, JoinRequest{key(4), {}, 0}});
  wait(26, {3});  // the others are silent
  ASSERT_EQ(roster(state().open.front()), std::vector{3});
  deliver({Report{3, {}, {}}});  // it had followed the round
  EXPECT_EQ(member(3).phase, Phase::kCatchingUp);
  EXPECT_EQ(member(3).snapshot, 0u);
  report(4);
  EXPECT_EQ(state().open.front().epoch, 1u);
  EXPECT_EQ(roster(state().open.front()), std::vector{3});
  offer(3, 0);
  EXPECT_EQ(last_record().closing->round, 0u);
}

TEST_F(Rounds, TheRunEndsWithItsLastOne) {
  plan_ = FakePlan(0, 1, 2);
  begin(3);
  for (int one = 0; one < 3; ++one) offer(one, 0);
  for (int one = 0; one < 3; ++one) offer(one, 1);
  EXPECT_TRUE(state().finished);
  EXPECT_TRUE(state().open.empty());
  wait(200);
  EXPECT_EQ(member(0).phase, Phase::kActive);  // nothing is decided any more
}

}  // namespace
}  // namespace thinwire::membership
