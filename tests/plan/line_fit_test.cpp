#include <gtest/gtest.h>

#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/plan/laws.h"

namespace thinwire::plan {
namespace {

constexpr double kTolerance = 1e-12;

// The expected values are from numpy.polyfit and the textbook's formulas.
TEST(LineFit, IsTheLineOfLeastSquaresWithItsIntervals) {
  const LineFit fit = fit_line(std::vector<Point>{{1, 1}, {2, 3}, {3, 2}, {4, 5}});
  EXPECT_NEAR(fit.intercept, 0, kTolerance);
  EXPECT_NEAR(fit.slope, 1.1, kTolerance);
  EXPECT_NEAR(fit.deviation, 1.161895003862225, kTolerance);
  EXPECT_NEAR(fit.at(5), 5.5, kTolerance);
  EXPECT_NEAR(fit.next(5).low, -2.4051157723970134, kTolerance);
  EXPECT_NEAR(fit.next(5).high, 13.40511577239701, kTolerance);
  EXPECT_NEAR(fit.slope_interval().low, -1.1359043874906636, kTolerance);
  EXPECT_NEAR(fit.slope_interval().high, 3.3359043874906638, kTolerance);
}

TEST(LineFit, OfTwoPointsHasNoIntervals) {
  const LineFit fit = fit_line(std::vector<Point>{{1, 1}, {3, 5}});
  EXPECT_NEAR(fit.slope, 2, kTolerance);
  EXPECT_EQ(fit.deviation, 0);
  EXPECT_EQ(fit.next(9).low, fit.next(9).high);
}

TEST(LineFit, FurtherPointsLieWithinTheIntervalAsOftenAsItSays) {
  constexpr int kRepetitions = 400;
  int held = 0;
  Rng rng(3, 3);
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<Point> points;
    for (const double x : {-1.0, 0.0, 0.5, 2.0, 3.0, 4.0}) {
      points.push_back({x, 2 - 0.4 * x + 0.3 * rng.normal()});
    }
    const Interval interval = fit_line(points).next(5);
    const double next = 2 - 0.4 * 5 + 0.3 * rng.normal();
    held += interval.low < next && next < interval.high ? 1 : 0;
  }
  EXPECT_GT(held, 0.92 * kRepetitions);
  EXPECT_LT(held, 0.98 * kRepetitions);
}

}  // namespace
}  // namespace thinwire::plan
