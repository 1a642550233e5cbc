// bf16 products with LibTorch, the ways of gemm.h one by one. Present only where the program is
// built with LibTorch. All compute on the calling thread.
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// As gemm() of gemm.h for Bf16 -> Bf16 and Bf16 -> float; m, n and k are positive.

// Needs has_bf16_way(Bf16Way::kNative).
template <typename Out>
void gemm_bf16_native(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                      int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc);

// Whether the processor and LibTorch have what it needs.
bool has_native_bf16();

// Thinwire owns the threads: LibTorch, its BLAS and OpenMP compute on the calling thread.
void use_calling_thread_only();

}  // namespace thinwire::tensor
