#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/page/live_run.h"

namespace thinwire::page {
namespace {

TEST(Curve, HasEveryPointOfAShortRun) {
  Curve curve;
  curve.add(1, 5);
  curve.add(2, 4);
  curve.add(3, std::numeric_limits<double>::quiet_NaN());
  const auto points = curve.points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].step, 2);
  EXPECT_EQ(points[1].value, 4);
}

TEST(Curve, HasMeansOfNeighboursOfALongRun) {
  Curve curve;
  constexpr int64_t kSteps = 10'001;
  for (int64_t step = 1; step <= kSteps; ++step) curve.add(step, static_cast<double>(step));
  const auto points = curve.points();
  EXPECT_LE(points.size(), Curve::kMost);
  EXPECT_GE(points.size(), Curve::kMost / 2);
  EXPECT_EQ(points.front().step, 32);
  EXPECT_EQ(points.front().value, 16.5);
  EXPECT_EQ(points.back().step, kSteps) << "the newest step is never left out";
  EXPECT_GT(points.back().value, kSteps - 32);
}

}  // namespace
}  // namespace thinwire::page
