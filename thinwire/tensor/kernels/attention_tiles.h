// Attention in bf16, made of the CPU's bf16 products (products/tiles.h): rotated queries and
// keys, probabilities and the gradients of scores are rounded to bf16, as other programs do (Dao
// 2023, arXiv 2307.08691); scores, their softmax and all sums are fp32. Blocks are those of
// attention.h.
//
// Shape suffixes as in attention.h; operands "in pairs" are right operands as pack_panels() leaves
// them, in panels of the tiles' panel_columns.
#pragma once

#include <cstdint>

#include "thinwire/base/half.h"
#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/products/tiles.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {

// Memory for one thread's calls with up to `sequence` positions.
struct AttentionTiles {
  AttentionTiles(const Bf16Tiles& products, int64_t sequence, int64_t head_size);
  size_t bytes() const;

  const Bf16Tiles& tiles;
  int64_t panel;                                // values of a panel of depth T
  AlignedBuffer<Bf16> key, query;               // [T, D], rotated
  AlignedBuffer<Bf16> key_t, value_t;           // [D, T] in pairs
  AlignedBuffer<Bf16> key_pairs, value_pairs;   // [T, D] in pairs
  AlignedBuffer<Bf16> query_pairs, dout_pairs;  // [T, D] in pairs
  AlignedBuffer<float> dkey, dvalue, dquery;    // [T, D]
  AlignedBuffer<float> row_dots;                // [T]
  AlignedBuffer<float> rotated, output;         // [query block, D]
  AlignedBuffer<float> scores, dscores;         // [query block, key block], rows kTilePad longer
  AlignedBuffer<Bf16> p, ds;                    // the same
  AlignedBuffer<Bf16> p_pairs, ds_pairs;        // the same, with rows interleaved in pairs
  AlignedBuffer<float> inverse_sum;             // [query block]
};

// As attention_forward() and attention_backward().
void attention_forward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                       int64_t kv_head, const Bf16* qkv_TW, Bf16* out, float* log_sum_exp,
                       AttentionTiles& scratch);
void attention_backward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                        int64_t kv_head, Bf16* qkv_TW, const Bf16* out, const Bf16* dout,
                        const float* log_sum_exp, AttentionTiles& scratch);

}  // namespace thinwire::tensor
