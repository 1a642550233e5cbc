#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/eval/metrics.h"

namespace thinwire::eval {
namespace {

const std::vector<std::pair<double, double>> kPairs = {{1, 2}, {2, 4}, {3, 4}, {4, 9}, {5, 1}};

NumberMoments moments_of(const std::vector<std::pair<double, double>>& pairs) {
  NumberMoments moments;
  for (const auto& [truth, predicted] : pairs) moments.add(truth, predicted);
  return moments;
}

// By hand: means 3 and 4, products -2 * -2 + 0 + 0 + 1 * 5 + 2 * -3, squares 10 and 38.
TEST(NumberMetrics, PearsonsIsTheNormalisedProduct) {
  EXPECT_NEAR(moments_of(kPairs).pearson(), 3 / std::sqrt(10.0 * 38), 1e-15);
  EXPECT_NEAR(moments_of({{1, -3}, {2, -5}}).pearson(), -1, 1e-15);
  EXPECT_EQ(moments_of(kPairs).metrics().front().first, "pearson");
}

// By hand: ranks 0 to 4 and 1, 2.5, 2.5, 4, 0; products 2 - 0.5 + 0 + 2 - 4 about
// their means, squares 10 and 9.5.
TEST(NumberMetrics, SpearmansIsPearsonsOfRanksWhichEqualNumbersShare) {
  EXPECT_NEAR(spearman(kPairs), -0.5 / std::sqrt(10 * 9.5), 1e-15);
  EXPECT_NEAR(spearman({{1, 1}, {2, 10}, {3, 100}}), 1, 1e-15);
  EXPECT_NEAR(spearman({{1, 5}, {2, 5}, {3, 7}, {4, 6}}), 3.5 / std::sqrt(5 * 4.5), 1e-15);
}

TEST(NumberMetrics, OfNumbersThatDoNotVaryAreZero) {
  EXPECT_EQ(moments_of({{1, 0.1}, {2, 0.1}, {3, 0.1}}).pearson(), 0);
  EXPECT_EQ(spearman({{1, 0.1}, {2, 0.1}}), 0);
  EXPECT_EQ(NumberMoments().pearson(), 0);
}

TEST(NumberMetrics, OfPartsAddUp) {
  NumberMoments all = moments_of({kPairs.begin(), kPairs.begin() + 2});
  all.add(moments_of({kPairs.begin() + 2, kPairs.end()}));
  all.add(NumberMoments());
  EXPECT_EQ(all.texts, 5);
  EXPECT_NEAR(all.pearson(), moments_of(kPairs).pearson(), 1e-15);
}

}  // namespace
}  // namespace thinwire::eval
