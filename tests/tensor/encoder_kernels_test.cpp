// The kernels of encoders: LayerNorm and GELU.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/tensor/kernel_cases.h"
#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"

namespace thinwire::tensor {
namespace {

template <typename C>
class EncoderKernelTest : public KernelTest<C> {};
TYPED_TEST_SUITE(EncoderKernelTest, Cases, CaseNames);

// x and delta, and what the kernel makes of them.
template <typename T>
struct Normed {
  Normed(const Kernels<T>& kernel, int64_t width)
      : x(random_values<float>(kRows * width, 1)),
        delta(random_values<T>(kRows * width, 2)),
        weight(random_values<float>(width, 3)),
        bias(random_values<float>(width, 4)),
        normed(x.size()),
        rstd(kRows),
        y(x.size()),
        out(x.size()) {
    for (float& value : x) value += 3;  // a mean that is not near 0
    kernel.layer_norm(kRows, width, x.data(), delta.data(), weight.data(), bias.data(), kEps,
                      normed.data(), rstd.data(), y.data(), out.data());
  }
  Matrix sum() const {
    Matrix sum = widen(x);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += widened(delta[i]);
    return sum;
  }

  std::vector<float> x;
  std::vector<T> delta;
  std::vector<float> weight, bias, normed, rstd, y;
  std::vector<T> out;
};

TYPED_TEST(EncoderKernelTest, LayerNormEqualsTheReference) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    Normed<T> n(this->kernel_, width);
    const Matrix expected =
        reference::layer_norm(width, n.sum(), widen(n.weight), widen(n.bias), kEps);
    EXPECT_LT(error(n.y, expected), 1e-5);
    EXPECT_LT(error(n.out, expected), kBound<T>);

    std::vector<float> again(n.y.size());
    std::vector<T> out(n.y.size());
    this->kernel_.layer_norm_again(kRows, width, n.normed.data(), n.weight.data(), n.bias.data(),
                                   again.data(), out.data());
    EXPECT_EQ(again, n.y);
    EXPECT_EQ(widen(out), widen(n.out));

    // In place, without an addition.
    std::vector<float> y = n.x;
    this->kernel_.layer_norm(kRows, width, y.data(), nullptr, n.weight.data(), n.bias.data(), kEps,
                             n.normed.data(), n.rstd.data(), y.data(), out.data());
    EXPECT_LT(
        error(y, reference::layer_norm(width, widen(n.x), widen(n.weight), widen(n.bias), kEps)),
        1e-5);
  }
}

TYPED_TEST(EncoderKernelTest, LayerNormBackwardEqualsFiniteDifferences) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    Normed<T> n(this->kernel_, width);
    const auto dout = random_values<T>(kRows * width, 5);
    const auto residual = random_values<float>(kRows * width, 6);
    Matrix dy = widen(residual);
    for (size_t i = 0; i < dy.size(); ++i) dy[i] += widened(dout[i]);
    const auto loss = [&](const Matrix& sum, const Matrix& weight, const Matrix& bias) {
      return dot(reference::layer_norm(width, sum, weight, bias, kEps), dy);
    };
    std::vector<float> dx = residual, dweight(width, -1.0f), dbias(width, 2.0f);
    std::vector<T> dx_copy(dx.size()), again(dx.size());
    this->kernel_.layer_norm_backward(kRows, width, n.normed.data(), n.rstd.data(), n.weight.data(),
                                      n.bias.data(), dout.data(), dx.data(), dx_copy.data(),
                                      dweight.data(), dbias.data(), again.data());
    const Matrix weight = widen(n.weight), bias = widen(n.bias);
    Matrix expected = derivative(n.sum(), [&](const Matrix& at) { return loss(at, weight, bias); });
    EXPECT_LT(error(dx, expected), 2e-5);
    EXPECT_LT(error(dx_copy, expected), kBound<T>);
    expected = derivative(weight, [&](const Matrix& at) { return loss(n.sum(), at, bias); });
    for (double& value : expected) value -= 1;
    EXPECT_LT(error(dweight, expected), 2e-5);
    expected = derivative(bias, [&](const Matrix& at) { return loss(n.sum(), weight, at); });
    for (double& value : expected) value += 2;
    EXPECT_LT(error(dbias, expected), 2e-5);
    EXPECT_EQ(widen(again), widen(n.out));
  }
}

TYPED_TEST(EncoderKernelTest, GeluEqualsTheReference) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    auto x = random_values<T>(kRows * width, 1);
    const auto dout = random_values<T>(kRows * width, 2);
    const Matrix slopes = derivative(
        widen(x), [&](const Matrix& at) { return dot(reference::gelu(at), widen(dout)); });
    const Matrix expected = reference::gelu(widen(x));
    std::vector<T> out(x.size()), again = dout;
    this->kernel_.gelu(kRows * width, x.data(), out.data());
    EXPECT_LT(error(out, expected), kBound<T>);
    this->kernel_.gelu_backward(kRows * width, x.data(), again.data(), again.data());
    EXPECT_LT(error(x, slopes), kBound<T>);
    EXPECT_EQ(widen(again), widen(out));
  }
}

TYPED_TEST(EncoderKernelTest, GeluIsExactToSevenDigitsEverywhere) {
  using T = typename TypeParam::T;
  if (!std::is_same_v<T, float>) return;  // bf16 has fewer
  constexpr int64_t kCount = 40'001;
  std::vector<T> x(kCount), out(kCount), slope(kCount), ones(kCount, rounded(1.0f, T()));
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = rounded(-20 + 40 * static_cast<float>(i) / (kCount - 1), T());
  }
  slope = x;
  this->kernel_.gelu(kCount, x.data(), out.data());
  this->kernel_.gelu_backward(kCount, slope.data(), ones.data(), ones.data());
  for (int64_t i = 0; i < kCount; ++i) {
    const double at = widened(x[i]);
    const double cumulative = 0.5 * (1 + std::erf(at / std::sqrt(2.0)));
    const double density = std::exp(-at * at / 2) / std::sqrt(2 * 3.14159265358979);
    EXPECT_NEAR(widened(out[i]), at * cumulative, 3e-7 * std::max(1.0, std::abs(at)));
    EXPECT_NEAR(widened(slope[i]), cumulative + at * density, 1e-6);
  }
}

}  // namespace
}  // namespace thinwire::tensor
