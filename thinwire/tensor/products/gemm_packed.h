// Matrix products with our own kernel: operands are packed into fp32 panels that fit the caches
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"), with vectors
// of any CPU; bf16 is widened while it is packed.
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/products/tiles.h"

namespace thinwire::tensor {

// As gemm() of gemm.h. Instantiated for float -> float, Bf16 -> Bf16 and Bf16 -> float.
template <typename In, typename Out>
void gemm_packed(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const In* A,
                 int64_t lda, const In* B, int64_t ldb, float beta, Out* C, int64_t ldc);

// to = sums + beta * to, rounded once; sums [rows, columns] is dense, the rows of `to` are `ld`
// apart. With beta 0 the old values are not read.
void round_sums(const float* sums, int64_t rows, int64_t columns, float beta, Bf16* to, int64_t ld);

// As gemm() of gemm.h, on the calling thread: cut into blocks that stay in the caches, packed, and
// multiplied tile by tile (tiles.h). m, n and k are positive.
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
