// bf16 products by LibTorch, for processors that multiply bf16 (and for the tests of that path on
// those that do not). Present only where the program is built with LibTorch.
#pragma once

#include <cstdint>

#include "thinwire/tensor/gemm.h"

namespace thinwire::tensor {

// As gemm() of gemm.h for Bf16 -> Bf16 and Bf16 -> float, except that the product is rounded to
// bf16 before beta * C is added.
template <typename Out>
void gemm_bf16_torch(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                     int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc);

}  // namespace thinwire::tensor
