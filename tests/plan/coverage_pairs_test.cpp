#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/methods/distro/coverage_plan.h"

namespace thinwire::plan {
namespace {

LossOfRun all_reduce(int64_t steps, double loss) { return {"a", "small", steps, 0, loss}; }

LossOfRun distro(int64_t steps, double coverage, double loss) {
  return {"d", "small", steps, coverage, loss};
}

TEST(CoveragePairs, ComparesWithTheBestRunByAllReduce) {
  const auto compared =
      compare_with_all_reduce(std::vector<LossOfRun>{all_reduce(1000, 3.1),
                                                     all_reduce(1000, 3.0),
                                                     all_reduce(4000, 2.5),
                                                     {"other", "large", 1000, 0, 2.0},
                                                     distro(1000, 5, 3.4),
                                                     distro(1000, 5, 3.3)});
  ASSERT_EQ(compared.size(), 2U);
  EXPECT_DOUBLE_EQ(compared[0].gap, 3.4 - 3.0);
  EXPECT_FALSE(compared[0].best);
  EXPECT_TRUE(compared[1].best);
}

TEST(CoveragePairs, SaysAfterHowManyStepsAllReduceHasTheLoss) {
  const std::vector<LossOfRun> runs = {all_reduce(1000, 3.0),   all_reduce(4000, 2.5),
                                       all_reduce(16'000, 2.4), distro(4000, 5, 2.75),
                                       distro(16'000, 20, 2.4), distro(16'000, 5, 3.1)};
  const auto compared = compare_with_all_reduce(runs);
  EXPECT_NEAR(*compared[0].all_reduce_steps, 2000, 1e-9) << "half of the way in the logarithm";
  EXPECT_NEAR(*compared[1].all_reduce_steps, 16'000, 1e-6);
  EXPECT_FALSE(compared[2].all_reduce_steps) << "worse than the shortest";
}

TEST(CoveragePairs, NamesARunWithoutAPartner) {
  try {
    compare_with_all_reduce(std::vector<LossOfRun>{all_reduce(1000, 3.0), distro(2000, 5, 2.9)});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("d: none of the runs by all-reduce has"));
    EXPECT_THAT(error.what(), testing::HasSubstr("2000 steps"));
  }
}

}  // namespace
}  // namespace thinwire::plan
