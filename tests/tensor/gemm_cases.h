// Matrix products of many sizes, compared with the reference.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/tensor/numbers.h"
#include "tests/tensor/reference.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

struct Size {
  int64_t m, n, k;
};

// Sizes around the borders of the kernels' tiles and blocks, and degenerate ones.
inline constexpr Size kSizes[] = {{1, 1, 1},     {1, 37, 5},    {5, 1, 300},   {12, 32, 16},
                                  {13, 33, 17},  {145, 65, 40}, {7, 530, 257}, {300, 24, 70},
                                  {64, 64, 513}, {1030, 9, 5},  {3, 1050, 20}, {70, 70, 1100}};
inline constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

template <typename In, typename Out>
using Gemm = std::function<void(Transpose, Transpose, int64_t, int64_t, int64_t, const In*, int64_t,
                                const In*, int64_t, float, Out*, int64_t)>;

// A matrix inside a larger one: rows `gap` further apart than they are long, with NaN between them.
template <typename T>
std::vector<T> spread(const std::vector<T>& dense, int64_t width, int64_t gap) {
  std::vector<T> out(dense.size() / width * (width + gap), rounded(std::nanf(""), T()));
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
          gemm_under_test(a, b, m, n, k, spread(A, lda, kGap).data(), lda + kGap,
                          spread(B, ldb, kGap).data(), ldb + kGap, beta, C.data(), n + kGap);
          std::vector<Out> got(old.size());
          for (int64_t i = 0; i < m * n; ++i) got[i] = C[i / n * (n + kGap) + i % n];
          EXPECT_LT(error(got, expected), bound) << m << " x " << n << " x " << k << ", transposed "
                                                 << int(a) << int(b) << ", beta " << beta;
          for (int64_t i = 0; i < m * kGap; ++i) {
            const size_t at = i / kGap * (n + kGap) + n + i % kGap;
            EXPECT_TRUE(std::isnan(widened(C[at]))) << "wrote between the rows";
          }
        }
      }
    }
  }
}

// Every way of computing bf16 products, each made the one that gemm() uses.
inline constexpr Bf16Kernel kBf16Kernels[] = {Bf16Kernel::kAmx, Bf16Kernel::kAvx512,
                                              Bf16Kernel::kPacked};

inline const char* name_of(Bf16Kernel kernel) {
  return kernel == Bf16Kernel::kAmx ? "amx" : kernel == Bf16Kernel::kAvx512 ? "avx512" : "packed";
}

class OnEachBf16Kernel : public testing::TestWithParam<Bf16Kernel> {
 protected:
  void SetUp() override {
    if (!has_bf16_kernel(GetParam())) {
      GTEST_SKIP() << "no " << name_of(GetParam()) << " bf16 products: this processor lacks them";
    }
    use_bf16_kernel_for_test(GetParam());
  }
  void TearDown() override { use_bf16_kernel_for_test(std::nullopt); }
};

}  // namespace thinwire::tensor
