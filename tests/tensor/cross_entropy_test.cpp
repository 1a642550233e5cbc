#include "thinwire/tensor/kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/tensor/gemm_cases.h"
#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"
#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::tensor {
namespace {

constexpr int64_t kWidth = 6, kVocabulary = 11;

std::vector<int32_t> random_targets(int64_t rows) {
  Rng rng(7, 0);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < rows; ++i) {
    targets.push_back(static_cast<int32_t>(rng.below(kVocabulary)));
  }
  return targets;
}

// Some of them 0.
std::vector<float> random_factors(int64_t rows) {
  Rng rng(8, 0);
  std::vector<float> factors;
  for (int64_t i = 0; i < rows; ++i) factors.push_back(static_cast<float>(rng.below(4)) / 2);
  return factors;
}

template <typename T>
void expect_equal_to_reference(int64_t rows, int thread_count,
                               const std::vector<float>& factors = {}) {
  ThreadPool threads(thread_count);
  LinearCrossEntropy<T> head(kWidth, kVocabulary, rows, threads);
  const auto x = random_values<T>(rows * kWidth, 1),
             weight = random_values<T>(kVocabulary * kWidth, 2);
  const std::vector<int32_t> targets = random_targets(rows);
  std::vector<T> dx(x.size());
  std::vector<float> dweight(weight.size(), 1.0f);
  const float* const given = factors.empty() ? nullptr : factors.data();
  const double loss = head.loss_and_gradients(rows, x.data(), weight.data(), targets.data(), given,
                                              0.25f, dx.data(), 1.0f, dweight.data());

  const auto reference_at = [&](const Matrix& at_x, const Matrix& at_weight) {
    return reference::linear_cross_entropy(kWidth, kVocabulary, at_x, at_weight, targets, factors);
  };
  const double expected = reference_at(widen(x), widen(weight));
  EXPECT_NEAR(loss, expected, 1e-5 * expected);
  EXPECT_EQ(loss, head.loss(rows, x.data(), weight.data(), targets.data(), given));

  Matrix gradient =
      derivative(widen(x), [&](const Matrix& at) { return reference_at(at, widen(weight)); });
  for (double& value : gradient) value *= 0.25;
  EXPECT_LT(error(dx, gradient), kBound<T>);
  gradient =
      derivative(widen(weight), [&](const Matrix& at) { return reference_at(widen(x), at); });
  for (double& value : gradient) value = 0.25 * value + 1;
  EXPECT_LT(error(dweight, gradient), kBound<T>);
}

TEST(LinearCrossEntropy, Fp32EqualsTheReference) {
  // One row, several chunks with a rest, and chunks split over threads.
  expect_equal_to_reference<float>(1, 1);
  expect_equal_to_reference<float>(300, 1);
  expect_equal_to_reference<float>(300, 2);
}

TEST(LinearCrossEntropy, FactorsMultiplyLossesAndGradients) {
  expect_equal_to_reference<float>(1, 1, {2.5f});
  expect_equal_to_reference<float>(300, 2, random_factors(300));
}

TEST(LinearCrossEntropy, FactorsOfOneChangeNoBit) {
  constexpr int64_t kRows = 20;
  ThreadPool threads(1);
  LinearCrossEntropy<float> head(kWidth, kVocabulary, kRows, threads);
  const auto x = random_values<float>(kRows * kWidth, 1),
             weight = random_values<float>(kVocabulary * kWidth, 2);
  const std::vector<int32_t> targets = random_targets(kRows);
  const std::vector<float> ones(kRows, 1.0f);
  std::vector<float> with(x.size() + weight.size()), without(with.size());
  const auto compute = [&](const float* factors, std::vector<float>& gradients) {
    return head.loss_and_gradients(kRows, x.data(), weight.data(), targets.data(), factors, 0.25f,
                                   gradients.data(), 0.0f, gradients.data() + x.size());
  };
  EXPECT_EQ(compute(ones.data(), with), compute(nullptr, without));
  EXPECT_EQ(with, without);
}

// The slabs of dweight together, of several chunks of rows with a rest.
template <typename T>
std::vector<float> gradient_in_slabs(int64_t slab, const std::vector<float>& factors,
                                     std::vector<float>* whole) {
  constexpr int64_t kRows = 300;
  ThreadPool threads(2);
  LinearCrossEntropy<T> head(kWidth, kVocabulary, kRows, threads);
  const auto x = random_values<T>(kRows * kWidth, 1),
             weight = random_values<T>(kVocabulary * kWidth, 2);
  const std::vector<int32_t> targets = random_targets(kRows);
  std::vector<T> dx(x.size()), dx_alone(x.size());
  const auto compute = [&](T* to, float* dweight) {
    return head.loss_and_gradients(kRows, x.data(), weight.data(), targets.data(), factors.data(),
                                   0.25f, to, 1.0f, dweight);
  };
  whole->assign(weight.size(), 1.0f);
  const double loss = compute(dx.data(), whole->data());
  EXPECT_EQ(compute(dx_alone.data(), nullptr), loss);
  EXPECT_EQ(std::memcmp(dx.data(), dx_alone.data(), dx.size() * sizeof(T)), 0);
  std::vector<float> slabs(weight.size(), 1.0f);
  for (int64_t first = 0; first < kVocabulary; first += slab) {
    const int64_t count = std::min(slab, kVocabulary - first);
    // The rows of other slabs may have changed.
    std::vector<T> rows(weight.size(), rounded(std::nanf(""), T()));
    std::copy_n(weight.data() + first * kWidth, count * kWidth, rows.data() + first * kWidth);
    head.weight_gradient(kRows, x.data(), rows.data(), targets.data(), first, count, 1.0f,
                         slabs.data() + first * kWidth);
  }
  return slabs;
}

template <typename T>
void expect_slabs_are_the_whole(double bound) {
  std::vector<float> whole;
  for (const int64_t slab : {1, 4, 11}) {
    const std::vector<float> slabs = gradient_in_slabs<T>(slab, random_factors(300), &whole);
    EXPECT_LT(error(slabs, widen(whole)), bound) << slab;
  }
}

TEST(LinearCrossEntropy, SlabsOfTheWeightsGradientAreThatOfTheWhole) {
  expect_slabs_are_the_whole<float>(1e-5);
}

class LinearCrossEntropyBf16 : public OnEachBf16Kernel {};
INSTANTIATE_TEST_SUITE_P(Ways, LinearCrossEntropyBf16, testing::ValuesIn(kBf16Kernels),
                         [](const auto& kernel) { return name_of(kernel.param); });

TEST_P(LinearCrossEntropyBf16, EqualsTheReference) {
  expect_equal_to_reference<Bf16>(1, 1);
  expect_equal_to_reference<Bf16>(300, 2);
  expect_equal_to_reference<Bf16>(300, 2, random_factors(300));
}

TEST_P(LinearCrossEntropyBf16, SlabsOfTheWeightsGradientAreThatOfTheWhole) {
  // Where a logit has other last bits, its gradient may be rounded to the other neighbour.
  expect_slabs_are_the_whole<Bf16>(1e-3);
}

TEST(LinearCrossEntropy, ThreadsDoNotChangeTheBits) {
  constexpr int64_t kRows = 100;
  const auto x = random_values<float>(kRows * kWidth, 1),
             weight = random_values<float>(kVocabulary * kWidth, 2);
  const std::vector<int32_t> targets = random_targets(kRows);
  std::vector<std::vector<float>> results;
  for (const int thread_count : {1, 2, 3}) {
    ThreadPool threads(thread_count);
    LinearCrossEntropy<float> head(kWidth, kVocabulary, kRows, threads);
    std::vector<float> gradients(x.size() + weight.size());
    head.loss_and_gradients(kRows, x.data(), weight.data(), targets.data(), nullptr, 0.25f,
                            gradients.data(), 0.0f, gradients.data() + x.size());
    results.push_back(gradients);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST(LinearCrossEntropy, ANanReachesTheLoss) {
  ThreadPool threads(1);
  LinearCrossEntropy<float> head(kWidth, kVocabulary, 1, threads);
  auto x = random_values<float>(kWidth, 1);
  const auto weight = random_values<float>(kVocabulary * kWidth, 2);
  x[3] = std::nanf("");
  const int32_t target = 2;
  EXPECT_TRUE(std::isnan(head.loss(1, x.data(), weight.data(), &target, nullptr)));
}

// One output is a number: of x = [1, 2, ...] and weights 0.5 each, whose targets are 1 off.
template <typename T>
void expect_squared_error() {
  constexpr int64_t kRows = 3;
  ThreadPool threads(2);
  LinearCrossEntropy<T> head(2, 1, kRows, threads);
  const std::vector<float> wide_x = {1, 2, 3, 4, 5, 6}, wide_weight = {0.5F, 0.25F};
  std::vector<T> x(6), weight(2), dx(6);
  kernels<T>().store_rows(1, 6, nullptr, wide_x.data(), 6, x.data(), 6);
  kernels<T>().store_rows(1, 2, nullptr, wide_weight.data(), 2, weight.data(), 2);
  const std::vector<float> factors = {1, 0, 2};
  const float bias = 1;
  std::vector<int32_t> targets;  // predicted are 2, 3.5 and 5
  for (const float number : {1.0F, 7.0F, 5.5F}) targets.push_back(std::bit_cast<int32_t>(number));
  std::vector<float> dweight(2), dbias(1);
  const double loss =
      head.loss_and_gradients(kRows, x.data(), weight.data(), targets.data(), factors.data(), 0.5F,
                              dx.data(), 0, dweight.data(), &bias);
  head.add_bias_gradient(dbias.data());
  EXPECT_EQ(loss, 1 + 2 * 0.25);
  EXPECT_EQ(
      head.loss(kRows, x.data(), weight.data(), targets.data(), factors.data(), nullptr, &bias),
      loss);
  // Slopes 2 * 0.5 * factor * error: 1, 0 and -1.
  EXPECT_EQ(widen(dx), (Matrix{0.5, 0.25, 0, 0, -0.5, -0.25}));
  EXPECT_EQ(dweight, (std::vector<float>{1 - 5, 2 - 6}));
  EXPECT_EQ(dbias, std::vector<float>{0});
}

TEST(LinearCrossEntropy, OfOneOutputIsTheSquaredErrorOfANumber) {
  expect_squared_error<float>();
  expect_squared_error<Bf16>();
}

}  // namespace
}  // namespace thinwire::tensor
