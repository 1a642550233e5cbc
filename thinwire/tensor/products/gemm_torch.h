// Products with LibTorch's libraries, on the calling thread. A build without LibTorch has none of
// them (gemm_stub.cpp).
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/products/tiles.h"

namespace thinwire::tensor {

// Whether there is a BLAS.
bool has_blas();
// gemm() of gemm.h with it, for sizes that fits_blas() accepts; m, n and k are positive.
void gemm_blas(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A,
               int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc);
bool fits_blas(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc);

// With oneDNN, which also uses AMX; null if the CPU or the library does not support it.
const Bf16Tiles* onednn_tiles();
// C = op(A) op(B), rounded once; needs onednn_tiles().
void gemm_onednn(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                 int64_t lda, const Bf16* B, int64_t ldb, Bf16* C, int64_t ldc);

// Makes LibTorch, its BLAS and OpenMP compute on the calling thread, because Thinwire owns the
// threads.
void use_calling_thread_only();

}  // namespace thinwire::tensor
