#include "thinwire/tensor/gemm.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/tensor/numbers.h"
#include "thinwire/tensor/gemm_packed.h"
#include "thinwire/tensor/reference.h"

namespace thinwire::tensor {
namespace {

struct Size {
  int64_t m, n, k;
};

// Around the borders of tiles and blocks of the kernels, and degenerate ones.
constexpr Size kSizes[] = {{1, 1, 1},     {1, 37, 5},    {5, 1, 300},   {12, 32, 16},
                           {13, 33, 17},  {145, 65, 40}, {7, 530, 257}, {300, 24, 70},
                           {64, 64, 513}, {1030, 9, 5},  {3, 1050, 20}};
constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

template <typename In, typename Out>
using Gemm = std::function<void(Transpose, Transpose, int64_t, int64_t, int64_t, const In*, int64_t,
                                const In*, int64_t, float, Out*, int64_t)>;

// A matrix inside a larger one: rows `gap` further apart than they are long.
template <typename T>
std::vector<T> spread(const std::vector<T>& dense, int64_t width, int64_t gap) {
  std::vector<T> out(dense.size() / width * (width + gap));
  for (size_t i = 0; i < dense.size(); ++i) out[i / width * (width + gap) + i % width] = dense[i];
  return out;
}

template <typename In, typename Out>
void expect_equal_to_reference(const Gemm<In, Out>& gemm_under_test, double bound) {
  constexpr int64_t kGap = 3;
  for (const auto [m, n, k] : kSizes) {
    for (const Transpose a : kBoth) {
      for (const Transpose b : kBoth) {
        const auto A = random_values<In>(m * k, 1), B = random_values<In>(k * n, 2);
        const auto old = random_values<Out>(m * n, 3);
        const int64_t lda = a == Transpose::kNo ? k : m, ldb = b == Transpose::kNo ? n : k;
        const Matrix product = reference::gemm(a, b, m, n, k, widen(A), widen(B));
        for (const float beta : {0.0f, 1.0f, -0.5f}) {
          Matrix expected = product;
          for (size_t i = 0; i < expected.size(); ++i) expected[i] += beta * widened(old[i]);
          auto C = spread(old, n, kGap);
          const auto before = C;
          gemm_under_test(a, b, m, n, k, spread(A, lda, kGap).data(), lda + kGap,
                          spread(B, ldb, kGap).data(), ldb + kGap, beta, C.data(), n + kGap);
          std::vector<Out> got(old.size());
          for (int64_t i = 0; i < m * n; ++i) got[i] = C[i / n * (n + kGap) + i % n];
          EXPECT_LT(error(got, expected), bound) << m << " x " << n << " x " << k << ", transposed "
                                                 << int(a) << int(b) << ", beta " << beta;
          for (int64_t i = 0; i < m * kGap; ++i) {
            const size_t at = i / kGap * (n + kGap) + n + i % kGap;
            EXPECT_EQ(widened(C[at]), widened(before[at])) << "wrote between the rows";
          }
        }
      }
    }
  }
}

TEST(Gemm, Fp32EqualsTheReference) {
  expect_equal_to_reference<float, float>([](auto... arguments) { gemm(arguments...); }, 1e-5);
}

TEST(Gemm, Bf16EqualsTheReference) {
  expect_equal_to_reference<Bf16, Bf16>([](auto... arguments) { gemm(arguments...); }, 1e-2);
}

TEST(Gemm, Bf16WithFp32ResultEqualsTheReference) {
  expect_equal_to_reference<Bf16, float>([](auto... arguments) { gemm(arguments...); },
                                         has_fast_bf16_gemm() ? 1e-2 : 1e-5);
}

TEST(Gemm, PackedKernelEqualsTheReference) {
  expect_equal_to_reference<float, float>([](auto... arguments) { gemm_packed(arguments...); },
                                          1e-5);
  expect_equal_to_reference<Bf16, float>([](auto... arguments) { gemm_packed(arguments...); },
                                         1e-5);
}

TEST(Gemm, SlabsOfAPoolEqualTheReference) {
  for (const int count : {2, 3}) {
    ThreadPool threads(count);
    expect_equal_to_reference<float, float>([&](auto... arguments) { gemm(threads, arguments...); },
                                            1e-5);
  }
}

TEST(Gemm, WithBetaZeroOldNansAreNotRead) {
  const float a = 2, b = 3;
  float c = std::nanf("");
  gemm(Transpose::kNo, Transpose::kNo, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  EXPECT_EQ(c, 6);
  c = std::nanf("");
  gemm_packed(Transpose::kNo, Transpose::kNo, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  EXPECT_EQ(c, 6);
}

TEST(Gemm, WithoutDepthScalesC) {
  float c[] = {2, 4};
  const float none = 0;
  gemm(Transpose::kNo, Transpose::kNo, 1, 2, 0, &none, 1, &none, 2, 0.5f, c, 2);
  EXPECT_EQ(c[0], 1);
  EXPECT_EQ(c[1], 2);
}

TEST(Gemm, ManyThreadsAtOnceGetTheSameBits) {
  constexpr int64_t kSide = 96;
  const auto a = random_values<float>(kSide * kSide, 1), b = random_values<float>(kSide * kSide, 2);
  std::vector<std::vector<float>> results(4, std::vector<float>(kSide * kSide));
  std::vector<std::thread> threads;
  for (auto& c : results) {
    threads.emplace_back([&a, &b, &c] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        gemm(Transpose::kNo, Transpose::kYes, kSide, kSide, kSide, a.data(), kSide, b.data(), kSide,
             0, c.data(), kSide);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& c : results) EXPECT_LT(error(c, widen(results[0])), 1e-6);
}

}  // namespace
}  // namespace thinwire::tensor
