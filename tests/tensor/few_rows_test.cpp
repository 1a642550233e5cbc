#include "thinwire/tensor/products/few_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/tensor/targets.h"
#include "thinwire/base/rng.h"

namespace thinwire::tensor {
namespace {

struct Case {
  int64_t m, n, k;
};

const Case kCases[] = {{1, 1, 1},   {1, 5, 3},     {1, 64, 48}, {2, 7, 100},
                       {3, 33, 17}, {4, 130, 352}, {1, 900, 96}};

std::vector<float> random_values(int64_t count, uint64_t stream) {
  Rng rng(11, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

std::vector<Bf16> rounded(const std::vector<float>& values) {
  std::vector<Bf16> all;
  for (const float value : values) all.push_back(to_bf16(value));
  return all;
}

float widened(float value) { return value; }
float widened(Bf16 value) { return to_float(value); }

class FewRows : public OnTarget<int64_t> {
 protected:
  // Against sums in double; what lies between the rows stays as it is.
  template <typename W>
  static void check(const Case& of, const std::vector<W>& weights) {
    const auto [m, n, k] = of;
    const int64_t ldx = k + 5, ldy = n + 3;
    const std::vector<float> x = random_values(m * ldx, 2);
    std::vector<float> once;
    for (const int count : {0, 1, 2}) {
      HelperThreads helpers(count);
      std::vector<float> y(static_cast<size_t>(m * ldy), 7.0f);
      multiply_few_rows(helpers, m, n, k, x.data(), ldx, weights.data(), y.data(), ldy);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < ldy; ++j) {
          double sum = j < n ? 0 : 7;
          double size = 0;
          for (int64_t at = 0; j < n && at < k; ++at) {
            const double term =
                double{x[size_t(i * ldx + at)]} * widened(weights[size_t(j * k + at)]);
            sum += term;
            size += std::abs(term);
          }
          EXPECT_NEAR(y[size_t(i * ldy + j)], sum, 1e-6 * size) << i << ", " << j;
        }
      }
      if (count == 0) once = y;
      EXPECT_EQ(y, once) << count << " helpers";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Products, FewRows, testing::ValuesIn(compiled_targets()),
                         [](const auto& of) { return target_name(of.param); });

TEST_P(FewRows, AreTheSumsInDoubleWithAnyNumberOfHelpers) {
  for (const Case& of : kCases) check(of, random_values(of.n * of.k, 1));
}

TEST_P(FewRows, WeightedSumsAreThoseInDouble) {
  for (const auto& [m, n, k] : kCases) {
    const int64_t ldx = n + 2, ldy = k + 3;
    const std::vector<float> x = random_values(m * ldx, 4), weights = random_values(n * k, 5);
    for (const bool add : {false, true}) {
      std::vector<float> y(static_cast<size_t>(m * ldy), 7.0f);
      sum_weighted_rows(m, n, k, x.data(), ldx, weights.data(), add, y.data(), ldy);
      for (int64_t i = 0; i < m * ldy; ++i) {
        const int64_t row = i / ldy, column = i % ldy;
        double sum = add || column >= k ? 7 : 0, size = 8;
        for (int64_t at = 0; column < k && at < n; ++at) {
          const double term = double{x[size_t(row * ldx + at)]} * weights[size_t(at * k + column)];
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(y[size_t(i)], sum, 1e-6 * size) << row << ", " << column;
      }
    }
  }
}

TEST_P(FewRows, UseBf16WeightsAsTheyAre) {
  for (const Case& of : kCases) check(of, rounded(random_values(of.n * of.k, 3)));
}

}  // namespace
}  // namespace thinwire::tensor
