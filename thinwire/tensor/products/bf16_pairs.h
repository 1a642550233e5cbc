// Packs bf16 operands for the CPU's bf16 instructions, which multiply pairs of neighbours in depth.
// Vector code chosen for the CPU at run time; any thread may call these.
#pragma once

#include <cstdint>

#include "thinwire/base/bf16.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// Columns of a panel of pairs.
inline constexpr int64_t kPairColumns = 64;

// Packs `depth` rows of op(B) in panels of kPairColumns columns, `panel` values apart. In a panel,
// to[i / 2][j][i % 2] = op(B)[i, j], in rows of kPairColumns pairs; missing columns are left
// unchanged. An odd depth is padded with zeros.
void pack_pairs(Transpose transpose, int64_t depth, int64_t columns, const Bf16* B, int64_t ldb,
                Bf16* to, int64_t panel);

// The other way round: to[j][2 i + p] = from[i][j][p] for `columns` columns, rows of `from` the
// distance `from_stride` and those of `to` the distance `stride` apart, both in values.
void unpack_pairs(int64_t pairs, int64_t columns, const Bf16* from, int64_t from_stride, Bf16* to,
                  int64_t stride);

// Copies rows that end in half a pair and adds a zero there, for which `stride`, the distance
// between the rows of `to`, must leave space.
void pad_rows(int64_t rows, int64_t depth, const Bf16* A, int64_t lda, Bf16* to, int64_t stride);

}  // namespace thinwire::tensor
