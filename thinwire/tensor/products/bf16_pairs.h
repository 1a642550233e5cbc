// bf16 operands as the processor's bf16 instructions take them, which multiply pairs of neighbours
// in depth. Vector code chosen for the processor at run time; any thread may call these.
#pragma once

#include <cstdint>

#include "thinwire/base/bf16.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// Columns of a panel of pairs, and the most rows of a packed block.
inline constexpr int64_t kPairColumns = 64;

// to[i / 2][j][i % 2] = op(B)[i, j] for `depth` rows and up to kPairColumns columns of op(B), in
// rows of kPairColumns pairs; what is missing in them is left as it was. An odd depth is filled up
// with zeros.
void pack_pairs(Transpose transpose, int64_t depth, int64_t columns, const Bf16* B, int64_t ldb,
                Bf16* to);

// to[r, i] = op(A)[r, i] for up to kPairColumns rows of op(A), rows `stride` apart. An odd depth is
// filled up with zeros, which `stride` leaves room for. pairs: room for depth rounded up times
// kPairColumns values.
void pack_rows(Transpose transpose, int64_t rows, int64_t depth, const Bf16* A, int64_t lda,
               Bf16* to, int64_t stride, Bf16* pairs);

}  // namespace thinwire::tensor
