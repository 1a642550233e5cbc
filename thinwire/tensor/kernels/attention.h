// Attention with rotary positions and grouped queries, to all earlier positions, to a sliding
// window of them, or to all positions, forward and backward, in memory linear in the sequence: a
// block of query rows goes through the keys that it sees in tiles whose scores stay in the L2
// cache, the logarithm of the softmax's denominator is kept, and the backward pass recomputes the
// probabilities (Dao et al. 2022, arXiv 2205.14135). One call computes one row of the batch and one
// key/value head with all query heads that share it, on the calling thread; calls are independent
// of each other.
//
// Shape suffixes: T positions, H query heads, G key/value heads, D head size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/half.h"
#include "thinwire/base/rope.h"
#include "thinwire/tensor/products/tiles.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {

// Tables of rotary position embeddings (Su et al. 2021, arXiv 2104.09864) and their scaling to
// longer contexts, with the definitions of transformers 5 (modeling_rope_utils.py):
//
//     f_i = theta^(-2i / D)                          the frequency of pair i of D / 2
//     linear    f_i / factor                         (Chen et al. 2023, arXiv 2306.15595)
//     dynamic   theta grows with a text longer than the context, by
//               (factor * length / context - (factor - 1))^(D / (D - 2))
//     llama3    f_i, f_i / factor, or between them, by the wavelength 2 pi / f_i against the
//               context (Llama Team 2024, arXiv 2407.21783)
//     yarn      the same by the number of rotations of the pair in the context; queries and keys
//     are
//               multiplied by attention_factor (Peng et al. 2023, arXiv 2309.00071)

// The frequencies [head_size / 2], in radians per position, for a text of `length` tokens, a number
// that only dynamic scaling depends on.
std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_size, int64_t length);

// The factor of all cosines and sines: 1 except for yarn.
double rope_magnitude(const RopeSpec& rope);

// Cosines and sines of position * frequency for [positions, head_size / 2], in texts of `length`
// tokens.
class RopeTable {
 public:
  RopeTable(int64_t positions, int64_t head_size, const RopeSpec& rope, int64_t length = 1);

  const float* cosine(int64_t position) const { return cosine_.data() + position * half_; }
  const float* sine(int64_t position) const { return sine_.data() + position * half_; }
  size_t bytes() const { return (cosine_.size() + sine_.size()) * sizeof(float); }

  // Whether this is the table for texts of `length` tokens; only with dynamic scaling may it not
  // be.
  bool is_for(int64_t length) const;

 private:
  int64_t half_;
  RopeSpec rope_;
  int64_t length_;
  std::vector<float> cosine_, sine_;
};

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;   // divides heads
  int64_t head_size = 0;  // even
  int64_t window = 0;     // a position sees itself and window - 1 before it; 0: all before it
  bool causal = true;     // false: a position sees all others, and window is 0

  // 1 / sqrt(head_size), the factor for the queries.
  float score_scale() const;
  int64_t group() const { return heads / kv_heads; }
  int64_t width() const { return heads * head_size; }
  // Positions that a position sees at most, as the kernels take it.
  int64_t reach() const { return window == 0 ? std::numeric_limits<int64_t>::max() : window; }
  // The first position that `position` sees.
  int64_t first_seen(int64_t position) const {
    return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
  }
  // The end of the positions that those before `end` see in a text of `sequence`.
  int64_t seen_end(int64_t end, int64_t sequence) const { return causal ? end : sequence; }
  // How many of `columns` keys from `key` on the query `first` sees, as the kernels take it.
  int64_t visible(int64_t first, int64_t key, int64_t columns) const {
    return causal ? first + 1 - key : columns;
  }
  // Width of a token's queries, keys and values together.
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }
};

// Padding of rows in scratch memory, so that elements of one column do not map to the same few sets
// of the L1 cache.
inline constexpr int64_t kTilePad = 16;

// Where one key/value head is in the first token's row of queries, keys and values.
template <typename T>
struct HeadColumns {
  HeadColumns(const AttentionShape& shape, int64_t kv_head, T* qkv)
      : key(qkv + (shape.heads + kv_head) * shape.head_size),
        value(qkv + (shape.heads + shape.kv_heads + kv_head) * shape.head_size) {}
  T* key;
  T* value;
};

struct AttentionTiles;

// Memory for one thread's calls with up to `sequence` positions. With `products`, attention in bf16
// is computed by them (attention_tiles.h), and the memory is for that alone.
struct AttentionScratch {
  AttentionScratch(int64_t sequence, int64_t head_size, const Bf16Tiles* products = nullptr);
  AttentionScratch(AttentionScratch&&) noexcept;
  ~AttentionScratch();
  size_t bytes() const;

  std::unique_ptr<AttentionTiles> tiles;          // null: without such products
  int64_t stride = 0;                             // of rows of T
  AlignedBuffer<float> key, value, dkey, dvalue;  // [T, D]
  AlignedBuffer<float> query, doutput, dquery;    // [T, D]
  AlignedBuffer<float> key_t, value_t;            // [D, T]
  AlignedBuffer<float> row_dots;                  // [T]
  AlignedBuffer<float> output;                    // [query block, D]
  AlignedBuffer<float> scores, dscores;           // [query block, key block], rows kTilePad longer
  AlignedBuffer<float> inverse_sum, log_sum_exp;  // [query block]
};

// qkv_TW: a token's unrotated queries of all heads, then keys, then values. Writes the columns of
// out [T, H D] and the rows of log_sum_exp [H, T] that belong to the query heads of `kv_head`.
template <typename T>
void attention_forward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                       int64_t kv_head, const T* qkv_TW, T* out, float* log_sum_exp,
                       AttentionScratch& scratch);

// Replaces the queries, keys and values of `kv_head` by their gradients, given the gradient dout of
// out.
template <typename T>
void attention_backward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                        int64_t kv_head, T* qkv_TW, const T* out, const T* dout,
                        const float* log_sum_exp, AttentionScratch& scratch);

// The inner part of causal attention, for callers that cache rotated keys: `rows` <= kQueryBlock
// queries (rotated, scaled by 1/sqrt(head_size)), the first of them at position `first`, against
// the keys and values [positions, D] of what they see. out [rows, D] is not yet multiplied by
// inverse_sum; scores has space for a tile (AttentionScratch).
void attend(const AttentionShape& shape, int64_t rows, int64_t first, const float* query,
            const float* key, const float* value, float* scores, float* out, float* inverse_sum,
            float* log_sum_exp);

}  // namespace thinwire::tensor
