// Packs bf16 operands for the CPU's bf16 instructions, which multiply pairs of neighbours in depth.
// Vector code chosen for the CPU at run time; any thread may call these.
#pragma once

#include <cstdint>

#include "thinwire/base/bf16.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// Columns of a panel of pairs, and the largest number of rows of a packed block.
inline constexpr int64_t kPairColumns = 64;

// to[i / 2][j][i % 2] = op(B)[i, j] for `depth` rows and up to kPairColumns columns of op(B), in
// rows of kPairColumns pairs; missing columns are left unchanged. An odd depth is padded with
// zeros.
void pack_pairs(Transpose transpose, int64_t depth, int64_t columns, const Bf16* B, int64_t ldb,
                Bf16* to);

// to[r, i] = op(A)[r, i] for up to kPairColumns rows of op(A), rows `stride` apart. An odd depth is
// padded with zeros, for which `stride` must leave space. pairs: space for kPairColumns times the
// depth, rounded up to even.
void pack_rows(Transpose transpose, int64_t rows, int64_t depth, const Bf16* A, int64_t lda,
               Bf16* to, int64_t stride, Bf16* pairs);

}  // namespace thinwire::tensor
