#include "thinwire/plan/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"

namespace thinwire::plan {
namespace {

constexpr double kScale = 3.15e14;
constexpr double kExponent = 0.072;
constexpr double kPerStep = 1.4e-4;

double law(double parameters, double local_steps) {
  return kPerStep * local_steps + std::pow(kScale / parameters, kExponent);
}

std::vector<LossPoint> runs(double noise) {
  Rng rng(1, 1);
  std::vector<LossPoint> points;
  for (const double parameters : {1e5, 3e5, 1e6, 3e6, 1e7, 1e8}) {
    for (const double steps : {1.0, 32.0, 512.0}) {
      points.push_back(
          {parameters, steps, law(parameters, steps) * std::exp(noise * rng.normal())});
    }
  }
  return points;
}

TEST(FitLaw, RecoversKnownConstants) {
  const auto points = runs(0);
  const FittedLaw fitted = fit_law("local_sgd", points);
  EXPECT_TRUE(fitted.joint);
  EXPECT_NEAR(fitted.law.scale / kScale, 1, 0.01);
  EXPECT_NEAR(fitted.law.exponent / kExponent, 1, 0.01);
  EXPECT_NEAR(fitted.law.loss_per_local_step / kPerStep, 1, 0.01);
  EXPECT_NEAR(predict(fitted, 3e9, 64).loss / law(3e9, 64), 1, 1e-6);
}

TEST(FitLaw, OfSynchronousRunsHasNoTermForLocalSteps) {
  std::vector<LossPoint> points;
  for (const double parameters : {1e5, 1e6, 1e7}) {
    points.push_back({parameters, 1, std::pow(6.06e14 / parameters, 0.069)});
  }
  const FittedLaw fitted = fit_law("allreduce", points);
  EXPECT_FALSE(fitted.joint);
  EXPECT_NEAR(fitted.law.scale / 6.06e14, 1, 0.01);
  EXPECT_NEAR(fitted.law.exponent / 0.069, 1, 0.01);
  EXPECT_EQ(fitted.law.loss_per_local_step, 0);
}

// 95 % intervals hold the truth in about 95 of 100 noisy repetitions.
TEST(FitLaw, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int kRepetitions = 400;
  int exponent = 0;
  int scale = 0;
  int predicted = 0;
  Rng rng(7, 7);
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<LossPoint> points;
    for (const double parameters : {1e5, 3e5, 1e6, 2e6, 4e6}) {
      points.push_back({parameters, 1, law(parameters, 0) * std::exp(0.01 * rng.normal())});
    }
    const FittedLaw fitted = fit_law("allreduce", points);
    exponent += fitted.exponent.low < kExponent && kExponent < fitted.exponent.high ? 1 : 0;
    scale += fitted.scale.low < kScale && kScale < fitted.scale.high ? 1 : 0;
    const double next = law(1e7, 0) * std::exp(0.01 * rng.normal());
    const Interval interval = predict(fitted, 1e7, 1).interval;
    predicted += interval.low < next && next < interval.high ? 1 : 0;
  }
  for (const int held : {exponent, scale, predicted}) {
    EXPECT_GT(held, 0.92 * kRepetitions);
    EXPECT_LT(held, 0.98 * kRepetitions);
  }
}

TEST(FitLaw, JointIntervalsHoldTheTruth) {
  const FittedLaw fitted = fit_law("local_sgd", runs(0.003));
  EXPECT_LT(fitted.loss_per_local_step.low, kPerStep);
  EXPECT_GT(fitted.loss_per_local_step.high, kPerStep);
  EXPECT_LT(fitted.loss_per_local_step.high / fitted.loss_per_local_step.low, 2);
  EXPECT_LT(fitted.exponent.low, kExponent);
  EXPECT_GT(fitted.exponent.high, kExponent);
}

TEST(FitLaw, SaysWhatIsMissing) {
  const std::vector<LossPoint> one_size = {{1e6, 1, 3}, {1e6, 1, 3.1}};
  const std::vector<LossPoint> bad = {{1e6, 1, 3}, {1e7, 1, std::nan("")}};
  for (const auto& [points, message] : {std::pair(one_size, "at least 2 sizes"),
                                        std::pair(bad, "loss of a run must be > 0, got nan")}) {
    try {
      fit_law("allreduce", points);
      FAIL() << message;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace thinwire::plan
