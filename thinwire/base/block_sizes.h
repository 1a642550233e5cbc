// Sizes of the blocks in which the trainer computes, and the padded shapes that follow from them.
// Predictions of a run's memory read the same constants as the run itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace thinwire {

// Tensors of an arena begin at multiples of this many elements: 64 bytes of fp32.
inline constexpr int64_t kArenaAlignment = 16;

// The elements of an arena that a tensor of `count` elements takes, including the gap after it.
constexpr int64_t padded_elements(int64_t count) {
  return (count + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Largest side of a tile of the discrete cosine transform; the indices of a tile's elements fit in
// 16 bits.
inline constexpr int kMaxTileSide = 256;

// Query rows and keys of one tile of attention's scores. Products of this size run at full speed.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 512;  // a multiple of kQueryBlock

// Rows of a chunk of logits for each thread: few where that keeps a small vocabulary's logits in
// the L2 cache, else enough to amortize reading all weights and their gradients once per chunk.
constexpr int64_t logit_rows(int64_t vocabulary) {
  constexpr int64_t kFew = 128, kMany = 256;
  constexpr int64_t kCached = 2 << 20;  // bytes
  return kFew * vocabulary * static_cast<int64_t>(sizeof(float)) <= kCached ? kFew : kMany;
}

// The gradient of the head's input (a chunk's logit gradients times the head's weight) is summed in
// this many parts.
inline constexpr int64_t kLogitParts = 2;

// The sum of squares of many values is formed in blocks of this many, added in order; in a block,
// lane i of kNormLanes sums the values whose index is i modulo kNormLanes, and the lanes are added
// in order. So the bits depend on nothing but the values.
inline constexpr int64_t kNormBlock = 4096;
inline constexpr int64_t kNormLanes = 16;

// A table whose gradient is formed in slabs of rows is cut at multiples of this many elements, a
// multiple of the blocks in which norms are summed and state is kept: so slabs change neither.
inline constexpr int64_t kSlabElements = 4096;

// Rows of each slab of a table [rows, width] that is cut into at most `slabs`, but for the last
// one.
constexpr int64_t slab_rows(int64_t rows, int64_t width, int64_t slabs) {
  const int64_t grain = kSlabElements / std::gcd(kSlabElements, width);
  const int64_t least = (rows + slabs - 1) / slabs;
  return std::min(rows, (least + grain - 1) / grain * grain);
}

// Columns of a panel of op(W) [depth, columns] that is decoded at once, for an encoded W: as many
// as stay in the L2 cache, a multiple of the blocks in which values share a scale.
constexpr int64_t encoded_panel_columns(int64_t depth) {
  constexpr int64_t kLeast = 64, kMost = 512;
  constexpr int64_t kValues = 1 << 19;
  return std::clamp(kValues / depth / kLeast * kLeast, kLeast, kMost);
}

// How many steps ahead rows are read.
inline constexpr size_t kStepsReadAhead = 2;

}  // namespace thinwire
