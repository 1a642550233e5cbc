// Packs operands for tiles (tiles.h). Instructions multiply and add a unit of depth at once: one
// fp32 value, or two neighbouring bf16 values. Vector code chosen for the CPU at run time; any
// thread may call these.
#pragma once

#include <cstdint>
#include <type_traits>

#include "thinwire/base/half.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// Columns of a panel, where nothing else is said.
inline constexpr int64_t kPanelColumns = 64;

// Values of a unit.
template <typename In>
inline constexpr int64_t kUnit = std::is_same_v<In, float> ? 1 : 2;

// `depth`, rounded up to whole units.
template <typename In>
constexpr int64_t whole_units(int64_t depth) {
  return (depth + kUnit<In> - 1) / kUnit<In> * kUnit<In>;
}

// Packs `depth` rows of op(B) in panels of `width` columns, `panel` values apart. In a panel,
// to[i / kUnit][j][i % kUnit] = op(B)[i, j], in rows of `width` units; missing columns are left
// unchanged. Half a unit at the end is filled up with a zero. In is float or Bf16.
template <typename In>
void pack_panels(Transpose transpose, int64_t depth, int64_t columns, const In* B, int64_t ldb,
                 In* to, int64_t panel, int64_t width = kPanelColumns);

// The other way round: to[j][2 i + p] = from[i][j][p] for `columns` columns, rows of `from` the
// distance `from_stride` and those of `to` the distance `stride` apart, both in values.
void unpack_pairs(int64_t pairs, int64_t columns, const Bf16* from, int64_t from_stride, Bf16* to,
                  int64_t stride);

// Copies rows that end in half a pair and adds a zero there, for which `stride`, the distance
// between the rows of `to`, must leave space.
void pad_rows(int64_t rows, int64_t depth, const Bf16* A, int64_t lda, Bf16* to, int64_t stride);

}  // namespace thinwire::tensor
