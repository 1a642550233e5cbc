// The kernels around a branch: norms of groups of columns, biases, and the residual stream.
#include <gtest/gtest.h>

#include <type_traits>

#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"
#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::tensor {
namespace {

constexpr int64_t kRows = 5;
constexpr double kEps = 1e-3;

template <typename T>
class NormGroupsTest : public testing::Test {};
struct TypeNames {
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, float> ? "fp32" : "bf16";
  }
};
using Operands = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(NormGroupsTest, Operands, TypeNames);

// Each of two groups of 19 columns, which begin at column 3 of rows of 50, normed by itself.
struct Layout {
  static constexpr int64_t kGroups = 2, kWidth = 19, kColumn = 3, kStride = 50, kRawStride = 44;
  static constexpr NormGroups kShape = {kRows, kGroups, kWidth, kStride, kRawStride, 4};

  // The groups one below the other.
  template <typename T>
  static std::vector<T> gathered(const std::vector<T>& rows, int64_t stride) {
    std::vector<T> out;
    for (int64_t r = 0; r < kRows; ++r) {
      const auto first = rows.begin() + r * stride + kColumn;
      out.insert(out.end(), first, first + kGroups * kWidth);
    }
    return out;
  }
};

TYPED_TEST(NormGroupsTest, EachGroupIsNormedByItself) {
  using T = TypeParam;
  const auto before = random_values<T>(kRows * Layout::kStride, 1);
  const auto weight = random_values<float>(Layout::kWidth, 2);
  std::vector<T> x = before, raw(kRows * Layout::kRawStride);
  std::vector<float> rstd(kRows * 4);
  kernels<T>().norm_groups(Layout::kShape, weight.data(), static_cast<float>(kEps),
                           x.data() + Layout::kColumn, raw.data() + Layout::kColumn,
                           rstd.data() + 1);
  const auto was = Layout::gathered(before, Layout::kStride);
  const Matrix expected = reference::rmsnorm(Layout::kWidth, widen(was), widen(weight), kEps);
  EXPECT_LT(error(Layout::gathered(x, Layout::kStride), expected), kBound<T>);
  EXPECT_EQ(widen(Layout::gathered(raw, Layout::kRawStride)), widen(was));
  EXPECT_EQ(widened(x[Layout::kColumn - 1]), widened(before[Layout::kColumn - 1]));
  EXPECT_EQ(rstd[0], 0.0f);
  EXPECT_EQ(rstd[3], 0.0f);
}

TYPED_TEST(NormGroupsTest, GradientsEqualFiniteDifferences) {
  using T = TypeParam;
  const auto before = random_values<T>(kRows * Layout::kStride, 1);
  const auto dout = random_values<T>(kRows * Layout::kStride, 3);
  const auto weight = random_values<float>(Layout::kWidth, 2);
  std::vector<T> x = before, raw(kRows * Layout::kRawStride), dx = dout;
  std::vector<float> rstd(kRows * 4), dweight(Layout::kWidth, 0.5f);
  const int64_t at = Layout::kColumn;
  kernels<T>().norm_groups(Layout::kShape, weight.data(), static_cast<float>(kEps), x.data() + at,
                           raw.data() + at, rstd.data());
  kernels<T>().norm_groups_backward(Layout::kShape, raw.data() + at, rstd.data(), weight.data(),
                                    dx.data() + at, dx.data() + at, dweight.data());
  const Matrix was = widen(Layout::gathered(before, Layout::kStride));
  const Matrix slope = widen(Layout::gathered(dout, Layout::kStride));
  const auto value = [&](const Matrix& inputs, const Matrix& weights) {
    return dot(reference::rmsnorm(Layout::kWidth, inputs, weights, kEps), slope);
  };
  const auto by_input = [&](const Matrix& inputs) { return value(inputs, widen(weight)); };
  EXPECT_LT(error(Layout::gathered(dx, Layout::kStride), derivative(was, by_input)), kBound<T>);
  const auto by_weight = [&](const Matrix& weights) { return value(was, weights); };
  Matrix expected = derivative(widen(weight), by_weight);
  for (double& gradient : expected) gradient += 0.5;  // added to what was there
  EXPECT_LT(error(dweight, expected), 1e-5);
}

TYPED_TEST(NormGroupsTest, ABiasIsAddedToEveryRowAndItsGradientIsTheirSum) {
  using T = TypeParam;
  constexpr int64_t kWidth = 21, kStride = 30;
  auto x = random_values<T>(kRows * kStride, 1);
  const auto bias = random_values<float>(kWidth, 2);
  std::vector<float> sum(kWidth, 1.0f);
  Matrix sums(kWidth, 1.0), added = widen(x);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kWidth; ++i) {
      sums[i] += widened(x[r * kStride + i]);
      added[r * kStride + i] += bias[i];
    }
  }
  kernels<T>().add_rows(kRows, kWidth, x.data(), kStride, sum.data());
  EXPECT_LT(error(sum, sums), 1e-6);
  kernels<T>().add_bias(kRows, kWidth, bias.data(), x.data(), kStride);
  EXPECT_LT(error(x, added), kBound<T>);
}

TYPED_TEST(NormGroupsTest, TheStreamTakesABranchAndIsRounded) {
  using T = TypeParam;
  constexpr int64_t kCount = 77;
  auto x = random_values<float>(kCount, 1);
  const auto delta = random_values<T>(kCount, 2);
  std::vector<T> out(kCount);
  Matrix expected = widen(x);
  for (int64_t i = 0; i < kCount; ++i) expected[i] += widened(delta[i]);
  kernels<T>().add_delta(kCount, x.data(), delta.data(), x.data(), out.data());
  EXPECT_LT(error(x, expected), 1e-6);
  EXPECT_LT(error(out, expected), kBound<T>);
  kernels<T>().add_delta(kCount, x.data(), nullptr, x.data(), out.data());
  EXPECT_LT(error(x, expected), 1e-6);
}

}  // namespace
}  // namespace thinwire::tensor
