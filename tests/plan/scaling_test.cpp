#include "thinwire/plan/scaling.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cmath>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

// The paper's settings of section 3.4, all with B = 4 M tokens.
LinkedClusters setting(double clusters, double devices, double flops, double gigabits) {
  return {clusters, devices, flops, gigabits * 1e9, 4e6};
}

TEST(Efficiency, IsComputeOverComputeAndExchange) {
  const LinkedClusters eight = setting(8, 8, 150e12, 0.8);
  for (const double parameters : {1e8, 1e11}) {
    const double compute = 32 * step_seconds(eight, parameters);
    const double both = compute + exchange_seconds(eight, parameters);
    EXPECT_NEAR(efficiency(eight, 32), compute / both, 1e-12);
  }
}

// "Communication bandwidth >= 0.8 Gbps suffices to maintain high scaling efficiency" (m = 2); the
// paper's usual 32 local steps.
TEST(Scenario1, TwoClustersAreEfficientFrom800MegabitsOn) {
  EXPECT_NEAR(efficiency(setting(2, 8, 150e12, 0.8), 32), 0.941, 5e-4);
  EXPECT_NEAR(efficiency(setting(2, 8, 300e12, 0.8), 32), 0.889, 5e-4);
  EXPECT_NEAR(efficiency(setting(2, 8, 150e12, 8), 32), 0.994, 5e-4);
}

// "When bandwidth is reduced to 0.08 Gbps, a local update step of 64 is recommended."
TEST(Scenario1, TwoClustersAt80MegabitsWant64LocalSteps) {
  EXPECT_NEAR(efficiency(setting(2, 8, 150e12, 0.08), 64), 0.762, 5e-4);
  EXPECT_NEAR(efficiency(setting(2, 8, 300e12, 0.08), 64), 0.615, 5e-4);
  EXPECT_LT(efficiency(setting(2, 8, 150e12, 0.08), 16), 0.5);
}

// "With bandwidth >= 0.8 Gbps, local update steps >= 32 can still maintain relatively ideal scaling
// efficiency" (m = 8); "further reduction ... results in a significant overall decline".
TEST(Scenario1, EightClustersWant800MegabitsAnd32LocalSteps) {
  EXPECT_NEAR(efficiency(setting(8, 8, 150e12, 0.8), 32), 0.696, 5e-4);
  EXPECT_NEAR(efficiency(setting(8, 8, 300e12, 0.8), 32), 0.533, 5e-4);
  EXPECT_NEAR(efficiency(setting(8, 8, 150e12, 0.08), 32), 0.186, 5e-4);
}

// "Minimum bandwidth requirement: >= 8 Gbps. Recommended local update steps: 64" (m = 2).
TEST(Scenario2, TwoLargeClustersWant8GigabitsAnd64LocalSteps) {
  EXPECT_NEAR(efficiency(setting(2, 1024, 150e12, 8), 64), 0.714, 5e-4);
  EXPECT_NEAR(efficiency(setting(2, 1024, 300e12, 8), 64), 0.556, 5e-4);
  EXPECT_NEAR(efficiency(setting(2, 1024, 150e12, 0.8), 64), 0.200, 5e-4);
}

// "Minimum bandwidth requirement: 40 Gbps. Recommended local update steps: 64 or 128" (m = 8).
TEST(Scenario2, EightLargeClustersWant40GigabitsAnd64Or128LocalSteps) {
  EXPECT_NEAR(efficiency(setting(8, 1024, 150e12, 40), 64), 0.641, 5e-4);
  EXPECT_NEAR(efficiency(setting(8, 1024, 150e12, 40), 128), 0.781, 5e-4);
  EXPECT_NEAR(efficiency(setting(8, 1024, 150e12, 8), 64), 0.263, 5e-4);
}

// "The duration required for a single round of communication between clusters is on the order of
// hours" for 100 B parameters: true of bytes at 0.8 Gbit/s, not of bits.
TEST(Scenario2, ARoundOf100BillionParametersTakesAnHour) {
  EXPECT_NEAR(exchange_seconds(setting(8, 1024, 150e12, 0.8), 100e9) / 3600, 0.972, 1e-3);
}

// "As m increases, the dependence on cross-cluster bandwidth W similarly intensifies."
TEST(Scenario3, AThousandSmallClustersNeedMoreThanTheLinksOfHomes) {
  EXPECT_NEAR(efficiency(setting(1024, 8, 150e12, 0.8), 64), 0.0303, 5e-5);
  EXPECT_NEAR(efficiency(setting(1024, 8, 150e12, 0.08), 64), 0.0031, 5e-5);
  EXPECT_NEAR(local_steps_for(setting(1024, 8, 150e12, 0.8), 0.5), 2046, 1);
}

TEST(Scenarios, AreTheCurvesOfFigure4) {
  const auto scenarios = paper_scenarios();
  EXPECT_EQ(scenarios.size(), 12 + 12 + 2);
  EXPECT_EQ(scenarios.front().setting.bandwidth_bit_s, 0.08e9);
  EXPECT_EQ(scenarios.back().setting.clusters, 1024);
}

// "Our calculations yield lambda ~ 2e-3."
TEST(LossLaws, LambdaIsThePapersWithBytesASecond) {
  EXPECT_NEAR(loss_per_efficiency({}, setting(8, 8, 150e12, 0.8)), 1.96e-3, 1e-5);
}

TEST(LossLaws, TwoFormsOfTheLossAgree) {
  const LinkedClusters eight = setting(8, 8, 150e12, 0.8);
  for (const double steps : {1.0, 32.0, 1000.0}) {
    EXPECT_NEAR(loss_at_efficiency({}, eight, 1e9, 2e10, efficiency(eight, steps)),
                local_loss({}, 1e9, 2e10, steps), 1e-12);
  }
}

TEST(LossLaws, AllReduceAndLocalSgdAreClose) {
  const LossLaws laws;
  EXPECT_NEAR(laws.all_reduce.loss(3e9, 6e10), 2.323, 1e-3);
  EXPECT_NEAR(laws.local_sgd.loss(3e9, 6e10), 2.299, 1e-3);
}

TEST(Spend, SpendsTheBudgetAndNoMore) {
  const LinkedClusters most = setting(8, 8, 150e12, 0.8);
  const Budget budget{7 * 86400.0};
  const auto choices = spend({}, most, budget);
  ASSERT_EQ(choices.size(), 8U);
  for (const BudgetChoice& choice : choices) {
    LinkedClusters used = most;
    used.clusters = choice.clusters;
    const double steps = choice.tokens / used.batch_tokens;
    const double seconds = steps * (step_seconds(used, choice.parameters) +
                                    exchange_seconds(used, choice.parameters) / choice.local_steps);
    EXPECT_NEAR(seconds / budget.seconds, 1, 1e-9);
  }
  EXPECT_EQ(choices[0].efficiency, 1);
  EXPECT_EQ(best_choice(choices).clusters, 8);
}

TEST(Spend, OneClusterIsBestOverAHopelessLink) {
  const auto choices = spend({}, setting(4, 1024, 300e12, 0.001), {86400});
  EXPECT_EQ(best_choice(choices).clusters, 1);
}

TEST(Spend, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(spend({}, setting(0, 8, 1e12, 1), {60}), UsageError);
  EXPECT_THROW(spend({}, setting(2, 8, 1e12, 0), {60}), UsageError);
  EXPECT_THROW(spend({}, setting(2, 8, 1e12, 1), {0}), UsageError);
}

RC_GTEST_PROP(EfficiencyProperty, StaysWithinOneAndGrowsWithBandwidthAndLocalSteps, ()) {
  const auto number = [](int low, int high) {
    return std::pow(10.0, *rc::gen::inRange(low * 10, high * 10) / 10.0);
  };
  const LinkedClusters some = {1 + number(-1, 3), number(0, 4), number(9, 16), number(3, 12),
                               number(2, 8)};
  LinkedClusters wider = some;
  wider.bandwidth_bit_s *= number(0, 2);
  const double steps = number(0, 4);
  const double share = efficiency(some, steps);
  RC_ASSERT(share >= 0 && share <= 1);
  RC_ASSERT(efficiency(wider, steps) >= share);
  RC_ASSERT(efficiency(some, steps * number(0, 2)) >= share);
}

TEST(Efficiency, IsEvaluatedAMillionTimesASecond) {
  LinkedClusters some;
  double sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i <= 1'000'000; ++i) {
    some.bandwidth_bit_s = i * 1e3;
    sum += loss_at_efficiency({}, some, 1e9, 2e10, efficiency(some, 32));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(sum, 0);
  EXPECT_LT(took.count(), 1);
}

}  // namespace
}  // namespace thinwire::plan
