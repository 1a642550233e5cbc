// Whom the coordinator takes for absent or lost, and who is waited for.
#include "coordinator_case.h"
#include "thinwire/membership/coordinator.h"

namespace thinwire::membership {
namespace {

using Silence = CoordinatorCase;

TEST_F(Silence, AnAbsentMemberIsNotWaitedFor) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  wait(5, {0, 1});  // the last message of member 2 arrived 5 s ago
  EXPECT_FALSE(last_record().closing);
  wait(0.5, {0, 1});
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
  EXPECT_EQ(member(2).phase, Phase::kLate) << "it is lost only after a longer silence";
  EXPECT_EQ(roster(state().open.front()), (std::vector{0, 1}));
}

TEST_F(Silence, AMemberWhoseConnectionEndedIsAbsentAtOnce) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  deliver({Departed{key(2)}});
  wait(0.5);
  EXPECT_FALSE(last_record().closing) << "the deadline is 1 s";
  wait(0.5);
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

TEST_F(Silence, AMemberThatIsHeardOverAnotherConnectionIsPresent) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  deliver({Departed{key(2)}, Departed{key(9)}});
  report(2);
  wait(4);
  EXPECT_FALSE(last_record().closing);
}

TEST_F(Silence, AnAbsentMemberIsWaitedForUntilTheDeadline) {
  begin(3);
  wait(10, {0, 1});
  offer(0, 0);
  wait(2);
  offer(1, 0);  // arrivals 10 and 12: median 11, MAD 1, deadline 11 + 4
  wait(2.5, {0, 1});
  EXPECT_FALSE(last_record().closing);
  wait(1, {0, 1});
  EXPECT_TRUE(last_record().closing);
}

TEST_F(Silence, ASlowMemberIsWaitedForBesideAnAbsentOne) {
  begin(4);
  for (int one = 0; one < 3; ++one) offer(one, 0);  // round 1 opens with member 3
  ASSERT_EQ(roster(state().open.front()).size(), 4u);
  offer(0, 1);
  offer(1, 1);
  wait(8, {0, 1, 2});  // member 3 is absent, member 2 is not
  ASSERT_EQ(state().open.front().round, 1u);
  offer(2, 1);
  ASSERT_EQ(state().open.front().round, 2u);
  EXPECT_EQ(last_record().closing->missing, std::vector{3});
}

TEST_F(Silence, RoundsWhoseMembersAreAllSilentOpenAnewForWhoeverIsThere) {
  begin(3);
  deliver({JoinRequest{key(3), {}, 0}});
  report(3);
  for (int one = 0; one < 3; ++one) deliver({Departed{key(one)}});
  wait(2.5);
  report(3);
  EXPECT_EQ(state().open.front().epoch, 0u) << "they may be back in a moment";
  wait(2.5);
  report(3);
  wait(0.5);
  EXPECT_EQ(state().open.front().epoch, 1u);
  EXPECT_EQ(roster(state().open.front()), std::vector{3});
  EXPECT_EQ(member(0).phase, Phase::kLate) << "it is not lost yet";
  offer(3, 0);
  EXPECT_EQ(state().open.front().round, 1u);
  EXPECT_EQ(roster(state().open.front()), std::vector{3}) << "nor is it waited for";
  report(0);
  offer(3, 1);
  EXPECT_EQ(roster(state().open.front()), (std::vector{0, 3})) << "it is back";
}

// The few that are left might be on the smaller side of a partition that lasts for a moment.
TEST_F(Silence, AMinorityWaitsUntilTheOthersHaveLongBeenSilent) {
  begin(3);
  offer(0, 0);
  deliver({Departed{key(1)}, Departed{key(2)}});
  wait(4.5, {0});
  EXPECT_FALSE(last_record().closing) << "they may be back in a moment";
  report(2);
  wait(4.5, {0});
  EXPECT_FALSE(last_record().closing) << "one of them was";
  wait(1, {0});
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, (std::vector{1, 2}));
  EXPECT_EQ(member(1).phase, Phase::kLate) << "it is not lost yet";
}

// No message arrives while the coordinator's machine sleeps; then they arrive one by one.
TEST_F(Silence, WhoeverSleepsTakesNobodyForAbsentOrLost) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  sleep(1000);
  EXPECT_FALSE(last_record().closing);
  EXPECT_EQ(member(2).phase, Phase::kActive);
  offer(2, 0);
  EXPECT_TRUE(last_record().closing->missing.empty());
  wait(10, {0});
  EXPECT_EQ(member(2).phase, Phase::kActive);
  wait(20, {0});
  EXPECT_EQ(member(2).phase, Phase::kLost);
}

// Its server hangs, say. Then the members are heard again, one by one.
TEST_F(Silence, WhoeverHearsNobodyTakesNobodyForAbsentOrLost) {
  begin(3);
  offer(0, 0);
  offer(1, 0);
  wait(90);
  EXPECT_FALSE(last_record().closing);
  for (int one = 0; one < 3; ++one) EXPECT_EQ(member(one).phase, Phase::kActive);
  wait(2, {0, 1});
  EXPECT_FALSE(last_record().closing) << "member 2 may be heard in a moment, too";
  wait(3, {0, 1});
  ASSERT_TRUE(last_record().closing);
  EXPECT_EQ(last_record().closing->missing, std::vector{2});
}

TEST_F(Silence, AQuorumIsNotEnoughWhileNobodyIsHeard) {
  options_.quorum = 0.6;
  begin(3);
  offer(0, 0);
  wait(2, {0, 1, 2});
  offer(1, 0);  // arrivals 0 and 2: median 1, MAD 1, deadline 1 + 4
  wait(90);
  EXPECT_FALSE(last_record().closing);
  for (int one = 0; one < 3; ++one) report(one);
  EXPECT_FALSE(last_record().closing) << "the deadline has moved by as much";
  wait(1, {0, 1, 2});
  EXPECT_TRUE(last_record().closing);
}

TEST_F(Silence, TheSilenceOfTheOnlyMemberIsItsOwn) {
  begin(3);
  deliver({LeaveNotice{1}, LeaveNotice{2}});
  wait(25);
  EXPECT_EQ(member(0).phase, Phase::kLost);
}

// However seldom the others are heard.
TEST_F(Silence, AMemberIsForgivenNoMoreSilenceThanTheTimeOut) {
  begin(3);
  for (int seconds = 0; seconds < 130; seconds += 10) {
    wait(10);
    for (int one = 0; one < 2; ++one) report(one);
  }
  EXPECT_EQ(member(2).phase, Phase::kLost);
  EXPECT_EQ(member(0).phase, Phase::kActive);
}

TEST_F(Silence, EverybodyIsLostWhoIsNotHeardForTheTimeOut) {
  begin(3);
  wait(99);
  EXPECT_EQ(member(0).phase, Phase::kActive);
  wait(1);
  for (int one = 0; one < 3; ++one) EXPECT_EQ(member(one).phase, Phase::kLost);
}

}  // namespace
}  // namespace thinwire::membership
