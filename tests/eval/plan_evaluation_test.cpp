#include <gtest/gtest.h>

#include "thinwire/eval/evaluate.h"

namespace thinwire::eval {
namespace {

TEST(PlanEvaluation, MetricsAreSharesOfPlans) {
  TaskItems task{"mine", {kPlanGraph, kPlanExact}, {}};
  const std::vector<GeneratedPlan> plans = {{"", {true, true, ""}},
                                            {"", {true, false, ""}},
                                            {"", {false, false, "x"}},
                                            {"", {true, false, ""}}};
  const std::vector<MetricSum> sums = plan_metrics(task, plans);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].name, "plan_graph");
  EXPECT_EQ(sums[0].value(), 0.75);
  EXPECT_EQ(sums[0].standard_error(), 0.25);  // sqrt(3/4 * 1/4 / 3)
  EXPECT_EQ(sums[1].value(), 0.25);
}

}  // namespace
}  // namespace thinwire::eval
