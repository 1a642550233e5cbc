// The innermost part of matrix products: tiles of a matrix with fp32 sums, from operands that lie
// ready for the CPU's instructions in units of depth (panels.h). Larger products (gemm_packed.h)
// and attention in bf16 are made of them.
#pragma once

#include <cstdint>

#include "thinwire/base/half.h"
#include "thinwire/tensor/products/panels.h"

namespace thinwire::tensor {

// A left operand of which unit i of row r begins at values + r * row + i * unit: a row-major matrix
// (unit = kUnit), or the transpose of a packed one (row = kUnit). In is float or Bf16.
template <typename In>
struct LeftOperand {
  const In* values;
  int64_t row, unit;

  LeftOperand at(int64_t first_row) const { return {values + first_row * row, row, unit}; }
};

// A right operand in panels of Tiles::panel_columns, as pack_panels() leaves them, `panel` values
// apart. Columns that do not exist are read, but not used.
template <typename In>
struct RightPanels {
  const In* values;
  int64_t panel;
};

// What is added to a product, fp32.
struct OldSums {
  const float* values = nullptr;  // null: none
  int64_t stride = 0;             // between rows

  OldSums at(int64_t row, int64_t column) const {
    return values == nullptr ? *this : OldSums{values + row * stride + column, stride};
  }
};

// One way of computing tiles: C = A B + old, `rows` x `columns`, over `units` units of depth (at
// least 1). Any thread may call these.
template <typename In>
struct Tiles {
  int64_t panel_columns;  // of B
  int64_t block_rows;     // of A, at most, for which a call is best made
  // `old` may be C.
  void (*multiply)(int64_t rows, int64_t columns, int64_t units, LeftOperand<In> A,
                   RightPanels<In> B, OldSums old, float* C, int64_t ldc);
  // To be called after the last of several products, before the thread does anything else.
  void (*release)();
};

struct Bf16Tiles : Tiles<Bf16> {
  // As multiply(), with the sums rounded once.
  void (*multiply_rounded)(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
                           RightPanels<Bf16> B, OldSums old, Bf16* C, int64_t ldc);
};

// Null where the CPU lacks the instructions: AVX-512, its bf16 instructions, and AMX with bf16.
const Tiles<float>* avx512_fp32_tiles();
const Bf16Tiles* avx512_bf16_tiles();
const Bf16Tiles* amx_bf16_tiles();
// The tiles of the implementation that gemm() uses (gemm.h); null if it has none.
const Bf16Tiles* bf16_tiles();

}  // namespace thinwire::tensor
