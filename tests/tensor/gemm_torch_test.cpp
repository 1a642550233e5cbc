#include "thinwire/tensor/gemm_torch.h"

#include <gtest/gtest.h>

#include "tests/tensor/numbers.h"
#include "thinwire/tensor/reference.h"

namespace thinwire::tensor {
namespace {

TEST(GemmTorch, Bf16ProductsEqualTheReference) {
  constexpr int64_t m = 20, n = 35, k = 50;
  const auto A = random_values<Bf16>(m * k, 1), B = random_values<Bf16>(k * n, 2);
  for (const Transpose a : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose b : {Transpose::kNo, Transpose::kYes}) {
      Matrix expected = reference::gemm(a, b, m, n, k, widen(A), widen(B));
      std::vector<Bf16> plain(m * n);
      const int64_t lda = a == Transpose::kNo ? k : m, ldb = b == Transpose::kNo ? n : k;
      gemm_bf16_torch(a, b, m, n, k, A.data(), lda, B.data(), ldb, 0.0f, plain.data(), n);
      EXPECT_LT(error(plain, expected), 1e-2);

      std::vector<float> added(m * n, 3.0f);
      for (double& value : expected) value += 6;
      gemm_bf16_torch(a, b, m, n, k, A.data(), lda, B.data(), ldb, 2.0f, added.data(), n);
      EXPECT_LT(error(added, expected), 1e-2);
    }
  }
}

}  // namespace
}  // namespace thinwire::tensor
