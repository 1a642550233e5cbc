#include "thinwire/tensor/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/tensor/kernel_cases.h"
#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"

namespace thinwire::tensor {
namespace {

TYPED_TEST_SUITE(KernelTest, Cases, CaseNames);

// An instruction set that is compiled but not listed above would go untested.
TEST(KernelTargets, AreAllListed) {
  for (const int64_t target : compiled_targets()) {
    EXPECT_NE(target & (HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_NEON | kNoVectors), 0)
        << target_name(target);
  }
}

Matrix sum_of(const Matrix& a, const Matrix& b) {
  Matrix out = a;
  for (size_t i = 0; i < out.size(); ++i) out[i] += b[i];
  return out;
}

TYPED_TEST(KernelTest, AddRmsnormEqualsTheReference) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    const auto x = random_values<float>(kRows * width, 1);
    const auto delta = random_values<T>(kRows * width, 2);
    const auto weight = random_values<float>(width, 3);
    std::vector<float> sum(x.size()), rstd(kRows);
    std::vector<T> out(x.size());
    this->kernel_.add_rmsnorm(kRows, width, x.data(), delta.data(), weight.data(), kEps, sum.data(),
                              rstd.data(), out.data());
    const Matrix expected = sum_of(widen(x), widen(delta));
    EXPECT_LT(error(sum, expected), 1e-6);
    EXPECT_LT(error(out, reference::rmsnorm(width, expected, widen(weight), kEps)), kBound<T>);

    this->kernel_.add_rmsnorm(kRows, width, x.data(), nullptr, weight.data(), kEps, sum.data(),
                              rstd.data(), out.data());
    EXPECT_EQ(sum, x);
    EXPECT_LT(error(out, reference::rmsnorm(width, widen(x), widen(weight), kEps)), kBound<T>);
  }
}

TYPED_TEST(KernelTest, RmsnormBackwardEqualsFiniteDifferences) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    const auto x = random_values<float>(kRows * width, 1);
    const auto dout = random_values<T>(kRows * width, 2);
    const auto weight = random_values<float>(width, 3);
    std::vector<float> same(x.size()), rstd(kRows), dx(x.size(), 2.0f), dweight(width, -1.0f);
    std::vector<T> out(x.size()), again(x.size()), dx_copy(x.size());
    this->kernel_.add_rmsnorm(kRows, width, x.data(), nullptr, weight.data(), kEps, same.data(),
                              rstd.data(), out.data());
    this->kernel_.rmsnorm_backward(kRows, width, x.data(), rstd.data(), weight.data(), dout.data(),
                                   dx.data(), dx_copy.data(), dweight.data(), again.data());

    Matrix expected = derivative(widen(x), [&](const Matrix& at) {
      return dot(reference::rmsnorm(width, at, widen(weight), kEps), widen(dout));
    });
    for (double& value : expected) value += 2;
    EXPECT_LT(error(dx, expected), 1e-5);
    EXPECT_LT(error(dx_copy, expected), kBound<T>);
    expected = derivative(widen(weight), [&](const Matrix& at) {
      return dot(reference::rmsnorm(width, widen(x), at, kEps), widen(dout));
    });
    for (double& value : expected) value -= 1;
    EXPECT_LT(error(dweight, expected), 1e-5);
    EXPECT_LT(error(again, widen(out)), kBound<T>);
  }
}

TYPED_TEST(KernelTest, SwigluEqualsTheReference) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    const auto gate_up = random_values<T>(kRows * 2 * width, 1);
    std::vector<T> out(kRows * width);
    this->kernel_.swiglu(kRows, width, gate_up.data(), out.data());
    EXPECT_LT(error(out, reference::swiglu(width, widen(gate_up))), kBound<T>);
  }
}

TYPED_TEST(KernelTest, SwigluBackwardEqualsFiniteDifferences) {
  using T = typename TypeParam::T;
  for (const int64_t width : kWidths) {
    auto gate_up = random_values<T>(kRows * 2 * width, 1);
    const auto dout = random_values<T>(kRows * width, 2);
    const Matrix expected = derivative(widen(gate_up), [&](const Matrix& at) {
      return dot(reference::swiglu(width, at), widen(dout));
    });
    const Matrix out = reference::swiglu(width, widen(gate_up));
    std::vector<T> again(kRows * width);
    auto others = gate_up;
    this->kernel_.swiglu_backward(kRows, width, gate_up.data(), dout.data(), again.data());
    EXPECT_LT(error(gate_up, expected), kBound<T>);
    EXPECT_LT(error(again, out), kBound<T>);
    auto replaced = dout;
    this->kernel_.swiglu_backward(kRows, width, others.data(), replaced.data(), replaced.data());
    EXPECT_EQ(widen(others), widen(gate_up));
    EXPECT_EQ(widen(replaced), widen(again));
  }
}

TYPED_TEST(KernelTest, SwigluOfExtremeGatesIsFinite) {
  using T = typename TypeParam::T;
  const float gates[] = {-1e30f, -200, 200, 1e18f};
  for (const float gate : gates) {
    const T in[] = {rounded(gate, T()), rounded(1.0f, T())};
    T out;
    this->kernel_.swiglu(1, 1, in, &out);
    EXPECT_NEAR(widened(out), gate > 0 ? widened(in[0]) : 0.0, std::abs(gate) * 1e-30);
  }
}

// Turning scores into probabilities reduces to exp if the row's log-sum-exp is 0.
TYPED_TEST(KernelTest, ExponentialsAreExactToTheLastBits) {
  constexpr int64_t kCount = 200'001;
  constexpr double kLowest = -87.3, kHighest = 88.0;
  std::vector<float> scores(kCount), unused(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    const double along = static_cast<double>(i) / (kCount - 1);
    scores[i] = static_cast<float>(kLowest + (kHighest - kLowest) * along);
  }
  const std::vector<float> x = scores;
  const float zero = 0;
  this->kernel_.causal_softmax_backward(1, kCount, kCount, kCount, &zero, &zero, scores.data(),
                                        unused.data(), kCount);
  double greatest = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    greatest = std::max(greatest, std::abs(scores[i] / std::exp(static_cast<double>(x[i])) - 1));
  }
  EXPECT_LT(greatest, 1e-7);
}

TYPED_TEST(KernelTest, ExponentialsBelowTheLeastNormalNumberAreZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores = {-87.4f, -100, -1e30f, -kInfinity, std::nanf(""), 0};
  std::vector<float> unused(scores.size());
  const auto count = static_cast<int64_t>(scores.size());
  const float zero = 0;
  this->kernel_.causal_softmax_backward(1, count, count, count, &zero, &zero, scores.data(),
                                        unused.data(), count);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scores[i], 0.0f);
  EXPECT_TRUE(std::isnan(scores[4]));
  EXPECT_EQ(scores[5], 1.0f);
}

TYPED_TEST(KernelTest, GradientsOfScoresInPairsEqualThoseInRows) {
  constexpr int64_t kStride = 48;
  struct Case {
    int64_t rows, columns, visible, reach;
  };
  for (const auto [rows, columns, visible, reach] :
       {Case{5, 31, 27, 1000}, Case{4, 32, 32, 1000}, Case{6, 20, -3, 4}, Case{1, 1, 1, 1},
        Case{7, 30, 20, 9}}) {
    auto p = random_values<float>(rows * kStride, 1), ds = random_values<float>(rows * kStride, 2);
    const auto shift = random_values<float>(rows, 3), mean = random_values<float>(rows, 4);
    std::vector<Bf16> p_pairs((rows + 1) / 2 * 2 * kStride, to_bf16(1)), ds_pairs = p_pairs;
    std::vector<Bf16> ds_rows = p_pairs;
    this->kernel_.causal_softmax_backward_pairs(
        rows, columns, visible, reach, shift.data(), mean.data(), p.data(), ds.data(), kStride,
        {p_pairs.data(), ds_pairs.data(), ds_rows.data(), kStride});
    this->kernel_.causal_softmax_backward(rows, columns, visible, reach, shift.data(), mean.data(),
                                          p.data(), ds.data(), kStride);
    for (int64_t r = 0; r < (rows + 1) / 2 * 2; ++r) {
      for (int64_t j = 0; j < (columns + 1) / 2 * 2; ++j) {
        const bool inside = r < rows && j < columns;
        const int64_t pair = r / 2 * 2 * kStride + 2 * j + r % 2, at = r * kStride + j;
        EXPECT_EQ(p_pairs[pair].bits, to_bf16(inside ? p[at] : 0).bits) << r << ", " << j;
        EXPECT_EQ(ds_pairs[pair].bits, to_bf16(inside ? ds[at] : 0).bits) << r << ", " << j;
        if (r == rows) continue;
        EXPECT_EQ(ds_rows[at].bits, to_bf16(inside ? ds[at] : 0).bits) << r << ", " << j;
      }
    }
  }
}

TEST(Kernels, TransposeTurnsRowsIntoColumnsOfAWiderMatrix) {
  constexpr int64_t kWidth = 7, kStride = 9, kTurnedStride = 45;
  for (const int64_t rows : {3, 32, 41}) {
    const auto from = random_values<float>(rows * kStride, 1);
    std::vector<float> to(kWidth * kTurnedStride, -1.0f);
    kernels<float>().transpose(rows, kWidth, from.data(), kStride, to.data(), kTurnedStride);
    for (int64_t c = 0; c < kWidth; ++c) {
      for (int64_t r = 0; r < kTurnedStride; ++r) {
        ASSERT_EQ(to[c * kTurnedStride + r], r < rows ? from[r * kStride + c] : -1.0f);
      }
    }
  }
}

TYPED_TEST(KernelTest, CrossEntropyEqualsTheReference) {
  using T = typename TypeParam::T;
  const int64_t vocabulary = 101, target = 17;
  auto logits = random_values<float>(vocabulary, 1);
  for (float& logit : logits) logit = 10 * logit + 500;  // exp(500) is infinite
  const auto loss = [&](const Matrix& at) {
    double total = 0;
    for (const double logit : at) total += std::exp(logit - 500);
    return std::log(total) + 500 - at[target];
  };
  Matrix gradient = derivative(widen(logits), loss);
  const double expected = loss(widen(logits));

  std::vector<T> got(logits.size());
  auto spent = logits;
  SoftmaxSum sum;
  const float value =
      this->kernel_.cross_entropy(vocabulary, spent.data(), target, got.data(), &sum);
  EXPECT_NEAR(value, expected, 1e-5 * expected);
  for (double& entry : gradient) entry *= sum.denominator;
  EXPECT_LT(error(got, gradient), kBound<T>);
  spent = logits;
  EXPECT_EQ(value, this->kernel_.cross_entropy(vocabulary, spent.data(), target, nullptr, &sum));
}

TYPED_TEST(KernelTest, CrossEntropyFollowsLogitsThatGrowBeyondAnyFirstGuess) {
  using T = typename TypeParam::T;
  constexpr int64_t kVocabulary = 10000, kTarget = 9990;
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocabulary; ++i) logits.push_back(0.05f * static_cast<float>(i) - 200);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - 300.0);
  std::vector<T> got(logits.size());
  auto spent = logits;
  SoftmaxSum sum;
  const float value =
      this->kernel_.cross_entropy(kVocabulary, spent.data(), kTarget, got.data(), &sum);
  EXPECT_NEAR(value, std::log(total) + 300.0 - logits[kTarget], 1e-4);
  spent = logits;
  T* const in_place = reinterpret_cast<T*>(spent.data());
  this->kernel_.cross_entropy(kVocabulary, spent.data(), kTarget, in_place, &sum);
  EXPECT_EQ(std::memcmp(in_place, got.data(), got.size() * sizeof(T)), 0);
  Matrix expected;
  for (const float logit : logits) {
    expected.push_back(sum.denominator * std::exp(logit - 300.0) / total);
  }
  expected[kTarget] -= sum.denominator;
  EXPECT_LT(error(got, expected), kBound<T>);
  // Again, in parts of which the last has the target.
  std::vector<T> again(logits.size());
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 4000}, {4000, 4001}, {4001, kVocabulary}}) {
    this->kernel_.cross_entropy_again(end - begin, logits.data() + begin, kTarget - begin, sum,
                                      again.data() + begin);
  }
  EXPECT_LT(error(again, expected), kBound<T>);
}

TYPED_TEST(KernelTest, CrossEntropyAgainHasTheSameBitsIfNoLogitOutgrowsTheFirstGuess) {
  using T = typename TypeParam::T;
  constexpr int64_t kVocabulary = 5000, kTarget = 4100;
  const auto logits = random_values<float>(kVocabulary, 1);
  std::vector<T> got(logits.size()), again(logits.size());
  auto spent = logits;
  SoftmaxSum sum;
  this->kernel_.cross_entropy(kVocabulary, spent.data(), kTarget, got.data(), &sum);
  for (int64_t begin = 0; begin < kVocabulary; begin += 1000) {
    spent = logits;
    T* const in_place = reinterpret_cast<T*>(spent.data() + begin);
    this->kernel_.cross_entropy_again(1000, spent.data() + begin, kTarget - begin, sum, in_place);
    std::copy_n(in_place, 1000, again.data() + begin);
  }
  EXPECT_EQ(std::memcmp(again.data(), got.data(), got.size() * sizeof(T)), 0);
}

TYPED_TEST(KernelTest, RotationTurnsBackByItsInverse) {
  using T = typename TypeParam::T;
  for (const int64_t width : {64, 6}) {
    const int64_t stride = width + 5;
    const auto x = random_values<T>(kRows * stride, 1);
    std::vector<float> cosine, sine;
    for (int64_t i = 0; i < kRows * width / 2; ++i) {
      cosine.push_back(static_cast<float>(std::cos(0.1 * i)));
      sine.push_back(static_cast<float>(std::sin(0.1 * i)));
    }
    std::vector<float> turned(kRows * width);
    std::vector<T> back(x.size());
    this->kernel_.rotate_load(Rotation::kForward, kRows, width, cosine.data(), sine.data(), 2.0f,
                              x.data(), stride, turned.data(), width);
    this->kernel_.rotate_store(Rotation::kInverse, kRows, width, cosine.data(), sine.data(), 0.5f,
                               turned.data(), width, back.data(), stride);
    for (int64_t r = 0; r < kRows; ++r) {
      const double angle = 0.1 * static_cast<double>(r * width / 2);  // the row's first pair
      const double a = widened(x[r * stride]), b = widened(x[r * stride + width / 2]);
      EXPECT_NEAR(turned[r * width], 2 * (a * std::cos(angle) - b * std::sin(angle)), 1e-5);
      EXPECT_NEAR(turned[r * width + width / 2], 2 * (b * std::cos(angle) + a * std::sin(angle)),
                  1e-5);
      for (int64_t i = 0; i < width; ++i) {
        EXPECT_NEAR(widened(back[r * stride + i]), widened(x[r * stride + i]), 4 * kBound<T>);
      }
      for (int64_t i = width; i < stride; ++i) EXPECT_EQ(widened(back[r * stride + i]), 0);
    }
  }
}

TYPED_TEST(KernelTest, StoringRoundsLikeToBf16) {
  using T = typename TypeParam::T;
  std::vector<float> values = random_values<float>(1000, 1);
  values.insert(values.end(), {0.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, 1e-40f,
                               std::numeric_limits<float>::infinity(), std::nanf("")});
  const auto count = static_cast<int64_t>(values.size());
  std::vector<T> stored(values.size());
  this->kernel_.store_rows(1, count, nullptr, values.data(), count, stored.data(), count);
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = widened(rounded(values[i], T()));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widened(stored[i])));
    } else {
      EXPECT_EQ(widened(stored[i]), expected) << values[i];
    }
  }
}

TYPED_TEST(KernelTest, CopyScalesEachRow) {
  using T = typename TypeParam::T;
  const float from[] = {1, 2, 9, 3, 4, 9}, scale[] = {2, 10};
  T stored[4];
  this->kernel_.store_rows(2, 2, scale, from, 3, stored, 2);
  const double expected[] = {2, 4, 30, 40};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(widened(stored[i]), expected[i]);
}

}  // namespace
}  // namespace thinwire::tensor
