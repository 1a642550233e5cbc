// bf16 products cut into blocks that stay in the caches, packed, and multiplied tile by tile
// (bf16_tiles.h).
#pragma once

#include <cstdint>

#include "thinwire/tensor/products/bf16_tiles.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// As gemm() of gemm.h, on the calling thread; m, n and k are positive.
template <typename Out>
void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C,
                int64_t ldc);

}  // namespace thinwire::tensor
