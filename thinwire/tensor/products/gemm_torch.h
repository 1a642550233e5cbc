// bf16 products with LibTorch, one function for each Bf16Kernel of gemm.h. Present only if the
// program is built with LibTorch. All compute on the calling thread.
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// As gemm() of gemm.h for Bf16 -> Bf16 and Bf16 -> float; m, n and k are positive.

// Needs has_bf16_kernel(Bf16Kernel::kNative).
template <typename Out>
void gemm_bf16_native(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                      int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc);

// Whether the CPU and LibTorch support it.
bool has_native_bf16();

// Makes LibTorch, its BLAS and OpenMP compute on the calling thread, because Thinwire owns the
// threads.
void use_calling_thread_only();

}  // namespace thinwire::tensor
