// The innermost part of bf16 products: tiles of a matrix from operands that lie ready for the CPU's
// bf16 instructions, which multiply pairs of neighbours in depth and add them to fp32 sums. Larger
// products and attention are made of them.
#pragma once

#include <cstdint>

#include "thinwire/base/bf16.h"
#include "thinwire/tensor/products/bf16_pairs.h"

namespace thinwire::tensor {

// A left operand of which pair i of row r begins at values + r * row + i * pair: a row-major matrix
// (pair = 2), or the transpose of one whose rows are interleaved in pairs (row = 2), as
// pack_pairs() leaves it.
struct PairOperand {
  const Bf16* values;
  int64_t row, pair;

  PairOperand at(int64_t first_row) const { return {values + first_row * row, row, pair}; }
};

// A right operand in panels of kPairColumns columns, as pack_pairs() leaves them, `panel` values
// apart. Columns that do not exist are read, but not used.
struct PairPanels {
  const Bf16* values;
  int64_t panel;
};

// What is added to a product, fp32.
struct OldSums {
  const float* values = nullptr;  // null: none
  int64_t stride = 0;             // between rows
};

// One way of computing tiles: C = A B + old, `rows` x `columns`, over `pairs` pairs of depth (at
// least 1). Any thread may call these.
struct Bf16Tiles {
  // `old` may be C.
  void (*multiply)(int64_t rows, int64_t columns, int64_t pairs, PairOperand A, PairPanels B,
                   OldSums old, float* C, int64_t ldc);
  // The sums are rounded once.
  void (*multiply_rounded)(int64_t rows, int64_t columns, int64_t pairs, PairOperand A,
                           PairPanels B, OldSums old, Bf16* C, int64_t ldc);
  // To be called after the last of several products, before the thread does anything else.
  void (*release)();
};

// With AVX512-BF16; null if this CPU has no such instructions.
const Bf16Tiles* avx512_tiles();
// Those of the implementation that gemm() uses (gemm.h); null if it has none.
const Bf16Tiles* bf16_tiles();

}  // namespace thinwire::tensor
