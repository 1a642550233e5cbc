// bf16 products as fp32 products of operands that are widened block by block, for CPUs without bf16
// instructions.
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// As gemm() of gemm.h, on the calling thread; m, n and k are positive.
template <typename Out>
void gemm_widened(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                  int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc);

}  // namespace thinwire::tensor
