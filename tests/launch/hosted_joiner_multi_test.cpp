// Members on many hosts that come late, leave and return end with the bits of the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using membership::Phase;
using membership::State;

class HostedMembers : public HostedCase {};

TEST_P(HostedMembers, AJoinerEndsWithTheBitsOfTheOthers) {
  if (!prepare(60)) GTEST_SKIP() << why_not_;
  expect_agreement_with_a_joiner();
}

// The run has as many workers as members, so that it begins with all of them: where two suffice, a
// third that comes while they are held becomes active only once they go on.
TEST_P(HostedMembers, OneThatLeavesAndReturnsEndsWithTheBitsOfTheOthers) {
  if (!prepare(60, kPatient, 3)) GTEST_SKIP() << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until([](const State& state) { return count(state, Phase::kActive) == 3; });
  EXPECT_EQ(run.leave(2).outcome, member::MemberOutcome::kLeft);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 1; });
  run.start(2);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 0; });
  run.release();
  expect_agreement(run, {0, 1, 2});
}

// All are taken for lost in the middle of rounds that they have contributed to, and some of them
// come back before the others.
TEST_P(HostedMembers, ACoordinatorGoesOnWithThoseItTookForLost) {
  if (!prepare(60, kPatient, 3)) GTEST_SKIP() << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until(begun());
  const uint64_t before = run.host().state().position.sequence;
  run.race_clock(true);
  run.wait_until([before](const State& state) {
    return std::ranges::any_of(state.members,
                               [&](const auto& member) { return member.phase_since > before; });
  });
  run.race_clock(false);
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedMembers, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

// The methods have many rounds, so that a joiner has time to take part.
class HostedJoiner : public HostedCase {
 protected:
  // So slow that members report the same round's digest, without which no snapshot counts.
  static constexpr double kRowSeconds = 0.01;
};

TEST_P(HostedJoiner, TrainsWithTheOthersOnceItHasCaughtUp) {
  ASSERT_TRUE(prepare(150)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until(begun());
  EXPECT_EQ(run.largest_roster(), 2u);
  run.start(2);
  run.wait_until_caught_up(2);
  run.release();
  expect_agreement(run, {0, 1, 2});
  EXPECT_EQ(run.largest_roster(), 3u);
}

TEST_P(HostedJoiner, FollowsWhoWasAlone) {
  ASSERT_TRUE(prepare(150, kPatient, 1)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  run.start(0);
  run.wait_until(begun());
  EXPECT_EQ(run.largest_roster(), 1u);
  run.start(1);
  run.wait_until_caught_up(1);
  run.release();
  expect_agreement(run, {0, 1});
  EXPECT_EQ(run.largest_roster(), 2u);
}

TEST_P(HostedJoiner, BeginsWithASnapshotOfTheRun) {
  ASSERT_TRUE(prepare(80)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(40);
  run.pace(kRowSeconds);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until([](const State& state) { return state.snapshots.size() > 1; });
  run.start(2);
  run.wait_until([](const State& state) {
    return state.members.size() == 3 && state.members.back().snapshot.value_or(0) > 0;
  });
  run.release();
  expect_agreement(run, {0, 1, 2});
}

// What it had in flight when it left is in its checkpoint.
TEST_P(HostedJoiner, GoesOnFromItsOwnCheckpointWhenItReturns) {
  ASSERT_TRUE(prepare(80, kPatient, 3)) << why_not_;
  options_.snapshot_every = 0;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until([](const State& state) { return state.next_step > 8; });
  EXPECT_EQ(run.leave(2).outcome, member::MemberOutcome::kLeft);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 1; });
  EXPECT_EQ(run.snapshots_fetched(), 3);
  run.start(2);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 0; });
  run.release();
  expect_agreement(run, {0, 1, 2});
  EXPECT_EQ(run.snapshots_fetched(), 3) << "it needs none";
  EXPECT_EQ(run.fresh_starts(), 0) << "of replicas, because their bits were others";
}

// In its snapshot a round is in flight to which it contributed itself.
TEST_P(HostedJoiner, FollowsItsOwnRoundsWhenItReturnsToASnapshot) {
  ASSERT_TRUE(prepare(80, kPatient, 3)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(40);
  run.pace(kRowSeconds);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until([](const State& state) { return state.next_step > 40; });  // no further snapshots
  EXPECT_GT(run.newest_snapshot(), 0u);
  EXPECT_EQ(run.leave(2).outcome, member::MemberOutcome::kLeft);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 1; });
  fs::remove_all(folder_ / "member2" / "checkpoints");
  run.start(2);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 0; });
  // Until then it may begin with an older snapshot, which the records of its former life name.
  run.wait_until_caught_up(run.id_of(2));
  const int before = run.fresh_starts();
  run.release();
  expect_agreement(run, {0, 1, 2});
  EXPECT_EQ(run.fresh_starts(), before) << "of replicas, because their bits were others";
}

// Nothing that it could offer for them would count.
TEST_P(HostedJoiner, DoesNotComputeItsOwnClosedRoundsAgainWhenItReturns) {
  ASSERT_TRUE(prepare(80, kPatient, 3)) << why_not_;
  options_.snapshot_every = 0;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(40);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until([](const State& state) { return state.next_step > 40; });
  EXPECT_EQ(run.leave(2).outcome, member::MemberOutcome::kLeft);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 1; });
  fs::remove_all(folder_ / "member2" / "checkpoints");
  run.start(2);
  run.wait_until([](const State& state) { return count(state, Phase::kLeft) == 0; });
  run.wait_until_caught_up(run.id_of(2));
  run.release();
  expect_agreement(run, {0, 1, 2});
  const auto history = events::read_run_log(folder_ / "member2" / "events.jsonl");
  EXPECT_GT(history.steps.front().step, 30) << "it begins anew with the weights at the start";
  EXPECT_EQ(history.steps.back().step, 80);
}

TEST_P(HostedJoiner, TakesTheTimeThatItIsToTakeForARow) {
  ASSERT_TRUE(prepare(4)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.pace(kRowSeconds);
  for (const int number : {0, 1}) run.start(number);
  expect_agreement(run, {0, 1});
  const double rows = static_cast<double>(recipe_.train.batch) / 2;
  for (const auto& [member, report] : run.host().reports()) {
    EXPECT_GE(report.step_seconds, rows * kRowSeconds) << "member " << member;
  }
}

TEST_P(HostedJoiner, ReportsLossesWhoseMeanIsThatOfARunInOneProcess) {
  ASSERT_TRUE(prepare(12)) << why_not_;
  const auto expected = train(recipe_, {}).summary.val_loss;
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  expect_agreement(run, {0, 1});
  run.wait_until_over();                                  // the last report came behind the losses
  std::map<std::string, std::pair<double, double>> sums;  // of losses and tokens
  std::set<uint64_t> steps;
  for (const membership::Loss& loss : run.losses()) {
    if (loss.set == membership::Loss::kTraining) steps.insert(loss.step);
    if (loss.set == membership::Loss::kTraining || loss.step != 12) continue;
    auto& [sum, tokens] = sums[loss.set];
    sum += loss.sum;
    tokens += static_cast<double>(loss.tokens);
  }
  EXPECT_EQ(steps.size(), run.plan().rounds());
  ASSERT_EQ(sums.size(), expected.size());
  for (const auto& [set, sum] : sums) {
    EXPECT_NEAR(sum.first / sum.second, expected.at(set), 1e-6) << set;
  }
}

TEST_P(HostedJoiner, IsToldIfTheRunIsComplete) {
  ASSERT_TRUE(prepare(4)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until_over();
  run.start(2);
  const member::MemberResult result = run.wait(2);
  EXPECT_EQ(result.outcome, member::MemberOutcome::kRefused);
  EXPECT_EQ(result.why, "the run is complete");
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedJoiner,
                         testing::ValuesIn(variants_named({"allreduce", "distro",
                                                           "distro_adamw_overlap"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
