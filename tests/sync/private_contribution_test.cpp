#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/sync/private_sum.h"

namespace thinwire::sync {
namespace {

constexpr size_t kCount = 50'000;  // several pieces, the last one short

config::PrivacySection privacy(double clip, double noise, double sampling = 1) {
  config::PrivacySection options;
  options.clip = clip;
  options.noise = noise;
  options.sampling = sampling;
  return options;
}

// Normal values of this norm times the weight.
std::vector<float> contribution(double norm, float weight) {
  Rng rng(7, 1);
  std::vector<float> values(kCount);
  double squares = 0;
  for (float& value : values) {
    value = static_cast<float>(rng.normal());
    squares += static_cast<double>(value) * value;
  }
  for (float& value : values) value *= static_cast<float>(norm / std::sqrt(squares)) * weight;
  return values;
}

double norm_of(const std::vector<float>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

class PrivateContribution : public testing::Test {
 protected:
  std::vector<float> said(const config::PrivacySection& options, std::vector<float> values,
                          float weight) {
    make_private(options, weight, values, threads_);
    return values;
  }
  ThreadPool threads_{2};
};

TEST_F(PrivateContribution, NothingHappensWithoutClip) {
  const auto values = contribution(3, 0.25f);
  EXPECT_EQ(said(privacy(0, 0), values, 0.25f), values);
}

TEST_F(PrivateContribution, LargeOnesAreScaledToTheBoundWhateverTheirWeight) {
  const auto values = contribution(3, 0.25f);
  const auto clipped = said(privacy(1, 0), values, 0.25f);
  EXPECT_NEAR(norm_of(clipped) / 0.25, 1, 1e-5);
  for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(clipped[i], values[i] / 3, 1e-9);
}

TEST_F(PrivateContribution, SmallOnesStayAsTheyAre) {
  const auto values = contribution(0.9, 0.25f);
  EXPECT_EQ(said(privacy(1, 0), values, 0.25f), values);
}

TEST_F(PrivateContribution, NoiseHasItsDeviationAndTheContributionIsUnderIt) {
  const float weight = 0.25f;
  const auto values = contribution(300, weight);
  const config::PrivacySection options = privacy(200, 0.01);  // noise of 2 a value
  std::vector<float> rest = said(options, values, weight);
  for (size_t i = 0; i < kCount; ++i) rest[i] -= values[i] * 2 / 3;
  const double deviation = norm_of(rest) / std::sqrt(kCount) / weight;
  EXPECT_NEAR(deviation, 2, 6 * 2 / std::sqrt(2.0 * kCount));
  const double along = std::inner_product(rest.begin(), rest.end(), values.begin(), 0.0) /
                       (norm_of(rest) * norm_of(values));
  EXPECT_LT(std::abs(along), 6 / std::sqrt(kCount));
  EXPECT_NE(said(options, values, weight), said(options, values, weight));
}

// 200 draws with q = 0.25: between 20 and 80 of them but once in 10^6 runs.
TEST_F(PrivateContribution, WhoIsNotDrawnSaysNoiseAndAllIsDividedByTheProbability) {
  const std::vector<float> values(100, 1.0f);  // norm 10
  int drawn = 0;
  for (int i = 0; i < 200; ++i) {
    const auto one = said(privacy(10, 0.001, 0.25), values, 1);
    const double mean = std::accumulate(one.begin(), one.end(), 0.0) / 100;
    ASSERT_TRUE(std::abs(mean) < 0.1 || std::abs(mean - 4) < 0.1) << mean;
    drawn += mean > 2 ? 1 : 0;
    const double deviation =
        std::sqrt(std::inner_product(one.begin(), one.end(), one.begin(), 0.0) / 100 - mean * mean);
    ASSERT_NEAR(deviation, 0.04, 0.02);
  }
  EXPECT_GT(drawn, 20);
  EXPECT_LT(drawn, 80);
}

// Values that the noise cancels nearly: has what must have been added as noise, if the contribution
// was there, fewer bits than other noise would have?
struct Cancelled {
  int all = 0;
  int as_fp32 = 0;
  double share() const { return static_cast<double>(as_fp32) / all; }
  void count(double said, double value) {
    if (std::abs(said) >= std::abs(value) / 16) return;
    ++all;
    const double noise = said - value;
    const double bit = std::abs(said) * std::numeric_limits<float>::epsilon();
    as_fp32 += std::abs(noise - static_cast<double>(static_cast<float>(noise))) <= bit ? 1 : 0;
  }
};

TEST_F(PrivateContribution, BitsOfSmallValuesDoNotTellWhetherItIsThere) {
  const auto values = contribution(0.9, 1);
  Cancelled there, absent;
  for (int i = 0; i < 20; ++i) {
    const auto with = said(privacy(1, 1), values, 1);
    const auto without = said(privacy(1, 1), std::vector<float>(kCount), 1);
    for (size_t at = 0; at < kCount; ++at) {
      there.count(with[at], values[at]);
      absent.count(without[at], values[at]);
    }
  }
  ASSERT_GT(std::min(there.all, absent.all), 50);
  EXPECT_NEAR(there.share(), absent.share(), 0.3);
}

TEST_F(PrivateContribution, AllIsOnAGridThatFollowsFromTheNoiseAlone) {
  const double grid = std::exp2(-20);  // of deviation 0.8
  for (const float value : said(privacy(2, 0.8), contribution(1.7, 0.5f), 0.5f)) {
    const double multiple = value / grid;
    ASSERT_TRUE(std::abs(multiple) > 0x1p24 || multiple == std::round(multiple)) << multiple;
  }
}

TEST_F(PrivateContribution, WhatIsNotFiniteIsRefused) {
  auto values = contribution(1, 1);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(said(privacy(1, 1), values, 1), Error);
}

}  // namespace
}  // namespace thinwire::sync
