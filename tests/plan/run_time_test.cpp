// Times of runs, computed by hand.
#include "thinwire/plan/run_time.h"

#include <gtest/gtest.h>

namespace thinwire::plan {
namespace {

// 100 bytes a second up, 1000 down.
Member group(int64_t count, double delay_s = 0, const std::string& site = "") {
  Member member;
  member.name = "machine";
  member.site = site;
  member.count = count;
  member.link = {.up_bit_s = 800, .down_bit_s = 8000, .delay_s = delay_s};
  return member;
}

RunSchedule schedule_of(int members, int64_t steps, int64_t every, int64_t overlap_steps,
                        std::vector<method::Piece> pieces) {
  RunSchedule schedule;
  schedule.steps = steps;
  schedule.every = every;
  schedule.overlap_steps = overlap_steps;
  schedule.pieces = std::move(pieces);
  schedule.clusters = {members, members};
  return schedule;
}

// Steps of 1 s of two members whose exchange takes 3 s.
double two_members(int64_t steps, int64_t every, int64_t overlap_steps) {
  const std::vector<Member> members = {group(2)};
  return run_seconds(schedule_of(2, steps, every, overlap_steps, {{300, 300}}), members,
                     std::vector<double>{1});
}

TEST(RunSeconds, ExchangesAreHiddenByTheStepsTheyMayTravel) {
  EXPECT_DOUBLE_EQ(two_members(5, 1, 0), 5 * (1 + 3));
  EXPECT_DOUBLE_EQ(two_members(5, 1, 1), 1 + 4 * 3 + 3);
  EXPECT_DOUBLE_EQ(two_members(12, 6, 0), 12 + 3 + 3);
  EXPECT_DOUBLE_EQ(two_members(12, 6, 2), 12 + 1 + 3);
  EXPECT_DOUBLE_EQ(two_members(12, 6, 6), 12 + 3) << "waits at the end only";
  EXPECT_DOUBLE_EQ(two_members(14, 6, 0), 14 + 3 + 3 + 3) << "sends at the end, too";
}

TEST(RunSeconds, DelayIsHiddenByASecondOuterStep) {
  const std::vector<Member> members = {group(2, 8)};
  const auto seconds = [&](int64_t overlap_steps) {
    return run_seconds(schedule_of(2, 24, 6, overlap_steps, {{1e-9, 1e-9}}), members,
                       std::vector<double>{1});
  };
  // Sent at 6, 12, 20, 26; the first is waited for from 12 to 14, the third to 28, the last to 34.
  EXPECT_NEAR(seconds(6), 34, 1e-6);
  EXPECT_NEAR(seconds(12), 24 + 8, 1e-6);
}

TEST(RunSeconds, WaitsAtFirstWhereOverlapBeginsLater) {
  const std::vector<Member> members = {group(2)};
  const auto seconds = [&](int64_t overlap_after) {
    RunSchedule schedule = schedule_of(2, 24, 6, 6, {{300, 300}});
    schedule.overlap_after = overlap_after;
    return run_seconds(schedule, members, std::vector<double>{1});
  };
  EXPECT_DOUBLE_EQ(seconds(0), 24 + 3);
  EXPECT_DOUBLE_EQ(seconds(1), 24 + 3 + 3);
  EXPECT_DOUBLE_EQ(seconds(4), 24 + 4 * 3);
  EXPECT_DOUBLE_EQ(seconds(1'000'000'000), 24 + 4 * 3) << "the run ends before";
}

TEST(RunSeconds, LongRunsGoOnAsTheyBegan) {
  // A wait of 1 s a round; the last exchange is sent when the one before it is there.
  EXPECT_NEAR(two_members(100'003, 6, 2), 100'002 + 16'666 + 3 + 3, 1e-6);
}

TEST(RunSeconds, PiecesTravelOneAfterAnother) {
  const std::vector<Member> members = {group(2)};
  // Of 6 and 1 s, sent after steps 2 and 4 and waited for a step later.
  const double seconds = run_seconds(schedule_of(2, 4, 4, 1, {{600, 600}, {100, 100}}), members,
                                     std::vector<double>{1});
  // Step 3 ends at 3, its wait at 8; step 4 ends at 9, when both are sent.
  EXPECT_DOUBLE_EQ(seconds, 9 + 6 + 1);
}

// A sum of 4 s in two round trips, half of which begins after 0.4 of a step and half at its end.
TEST(RunSeconds, PartsOfAnExchangeBeginDuringTheStep) {
  const std::vector<Member> members = {group(2)};
  RunSchedule schedule = schedule_of(2, 3, 1, 0, {{400, 400, 2}});
  const std::vector<double> compute = {10};
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, compute), 3 * (10 + 4));
  schedule.parts.all = {{0.5, 0.4}, {0.5, 1}};
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, compute), 3 * (10 + 2));
  schedule.parts.all = {{0.5, 0.9}, {0.5, 1}};
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, compute), 3 * (9 + 4));
}

// Awaited in turn, the first part holds up what comes after the second begins.
TEST(RunSeconds, PartsThatAreAwaitedInTurnHoldUpTheStep) {
  const std::vector<Member> members = {group(2)};
  RunSchedule schedule = schedule_of(2, 1, 1, 0, {{400, 400, 2}});
  schedule.parts = {{{0.75, 0.1}, {0.125, 0.2}, {0.125, 1}}, true};
  // 3 s from 1 on; the second begins at 2 and travels until 4.5. From 4 on 8 s are computed, until
  // 12, when the third begins.
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{10}), 12 + 0.5);
}

// Two clusters, of which one has a slow member.
TEST(RunSeconds, PartsInsideClustersBeginDuringTheStep) {
  const std::vector<Member> members = {group(3), group(1)};
  RunSchedule schedule = schedule_of(4, 2, 2, 0, {{1e-9, 1e-9}});
  schedule.clusters = {4, 2};
  schedule.inside = {{400, 400, 2}, {400, 400, 2}};
  schedule.inside_parts.all = {{0.5, 0.5}, {0.5, 1}};
  // The first half travels during the step, the second takes 2 s after it. At the end the first
  // cluster's first member waits for the other's.
  EXPECT_NEAR(run_seconds(schedule, members, std::vector<double>{10, 20}),
              (44 + 24 + 44 + 44) / 4.0, 1e-9);
}

TEST(RunSeconds, OneMemberIsSlowAndAnothersLineIsThin) {
  std::vector<Member> members = {group(3), group(1)};
  members[1].link.up_bit_s = 8000;
  // The slow one is done at 4 and needs 0.3 s; the others are done at 1 and need 3 s. At 4 it has
  // received everything it needs.
  const double seconds =
      run_seconds(schedule_of(4, 1, 1, 0, {{300, 900}}), members, std::vector<double>{1, 4});
  EXPECT_NEAR(seconds, (3 * 4.3 + 4) / 4, 1e-9);
}

TEST(RunSeconds, WithoutARelayEveryoneIsSentACopy) {
  const std::vector<Member> members = {group(4)};
  RunSchedule schedule = schedule_of(4, 1, 1, 0, {{100, 300}});
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1}), 1 + 1);
  schedule.relay = false;
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1}), 1 + 3);
}

// Two sites of two, whose members train as one.
TEST(RunSeconds, ClustersMeetInsideEveryStepAndAcrossByTheirFirstMembers) {
  RunSchedule schedule = schedule_of(4, 6, 3, 0, {{200, 200, 1, 100}});
  schedule.clusters = {4, 2};
  schedule.inside = {{50, 50}, {50, 50}};
  const std::vector<Member> own_lines = {group(4)};
  const std::vector<double> compute = {1};
  // Twice: 3 steps with 0.5 s each, 2 s across, 1 s to the other one of the cluster, for which the
  // first one does not wait at the end.
  EXPECT_NEAR(run_seconds(schedule, own_lines, compute), 2 * (3 * 1.5 + 2 + 1) - 0.5, 1e-9);
  const std::vector<Member> sites = {group(2, 0, "a"), group(2, 0, "b")};
  const std::vector<double> slower = {1, 2};
  // Site a sends from 3 to 5, b from 6 to 8; then from 11 to 13 and 12 to 14.
  EXPECT_NEAR(run_seconds(schedule, sites, slower), (14 + 13) / 2.0, 1e-9);
}

TEST(RunSeconds, StoredPayloadsComeDownAfterTheSlowestUpload) {
  std::vector<Member> members = {group(3), group(1)};
  RunSchedule schedule = schedule_of(4, 2, 1, 0, {{100, 300}});
  schedule.stored = true;
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1, 1}), 2 * (1 + 1 + 0.3));
  members[1].link.up_bit_s = 400;
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1, 1}), 2 * (1 + 2 + 0.3));
  members[1] = group(1, 0.5);
  // Half a second each until the last byte is there, acknowledged and offered; then, for this
  // member alone, for the decision, the request and the answer.
  schedule.steps = 1;
  const double others = 1 + 1 + 1.5 + 0.3;
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1, 1}), others + 1.5 / 4);
}

TEST(RunSeconds, StoredPayloadsOfASiteCrossItsLineBothWays) {
  RunSchedule schedule = schedule_of(4, 1, 1, 0, {{100, 300}});
  schedule.stored = true;
  const std::vector<Member> members = {group(4, 0, "lab")};
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1}), 1 + 4 + 1.2);
}

TEST(RunSeconds, StoredPayloadsAreHiddenByOverlap) {
  const std::vector<Member> members = {group(4)};
  RunSchedule schedule = schedule_of(4, 3, 1, 1, {{50, 300}});
  schedule.stored = true;
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1}), 3 + 0.5 + 0.3);
}

TEST(RunSeconds, MembersOfASiteShareItsLine) {
  std::vector<Member> members = {group(2, 0, "lab"), group(2)};
  const RunSchedule schedule = schedule_of(4, 1, 1, 0, {{100, 300}});
  // Two payloads leave through the lab's line, and one through each of the others'.
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1, 1}), (3 + 2) / 2.0);
  members = {group(4, 0, "lab")};
  EXPECT_DOUBLE_EQ(run_seconds(schedule, members, std::vector<double>{1}), 1);
}

}  // namespace
}  // namespace thinwire::plan
