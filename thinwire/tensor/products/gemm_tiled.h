// bf16 products cut into blocks that stay in the caches, packed, and multiplied tile by tile
// (tiles.h).
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/products/tiles.h"

namespace thinwire::tensor {

// As gemm() of gemm.h, on the calling thread; m, n and k are positive.
void gemm_tiled(const Tiles<float>& tiles, Transpose a, Transpose b, int64_t m, int64_t n,
                int64_t k, const float* A, int64_t lda, const float* B, int64_t ldb, float beta,
                float* C, int64_t ldc);
void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, float* C,
                int64_t ldc);
void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, Bf16* C,
                int64_t ldc);

}  // namespace thinwire::tensor
