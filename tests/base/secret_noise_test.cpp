#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

// Limits are 6 standard deviations of what is estimated: once in 10^8 runs.
TEST(SecretNoise, IsNormal) {
  constexpr size_t kCount = 400'001;  // odd: the last pair is not whole
  std::vector<double> values(kCount);
  fill_secret_normals(values);
  double sum = 0, squares = 0, fourth = 0;
  for (const double value : values) {
    const double square = value * value;
    sum += value;
    squares += square;
    fourth += square * square;
  }
  const double n = kCount, limit = 6 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0, limit);
  EXPECT_NEAR(squares / n, 1, limit * std::sqrt(2));
  EXPECT_NEAR(fourth / n, 3, limit * std::sqrt(96));
  // Kolmogorov and Smirnov: above 2.9 / sqrt(n) once in 10^7 runs.
  std::ranges::sort(values);
  double distance = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double below = std::erfc(-values[i] / std::sqrt(2)) / 2;
    distance = std::max(distance, std::abs(below - static_cast<double>(i) / n));
  }
  EXPECT_LT(distance, 2.9 / std::sqrt(n));
}

TEST(SecretNoise, NeighboursAndCallsHaveNothingInCommon) {
  std::vector<double> first(200'000), second(200'000);
  fill_secret_normals(first);
  fill_secret_normals(second);
  EXPECT_NE(first, second);
  double between = 0, neighbours = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    between += first[i] * second[i];
    if (i > 0) neighbours += first[i] * first[i - 1];
  }
  const double limit = 6 * std::sqrt(static_cast<double>(first.size()));
  EXPECT_LT(std::abs(between), limit);
  EXPECT_LT(std::abs(neighbours), limit);
}

TEST(SecretNoise, UniformsAreInTheirRange) {
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double one = secret_uniform();
    ASSERT_TRUE(one >= 0 && one < 1);
    sum += one;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 6 * std::sqrt(1.0 / 12 / 10'000));
}

}  // namespace
}  // namespace thinwire
