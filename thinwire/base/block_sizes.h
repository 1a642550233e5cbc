// Sizes of the blocks in which the trainer computes, and the padded shapes that follow from them.
// Predictions of a run's memory read the same constants as the run itself.
#pragma once

#include <cstddef>
#include <cstdint>

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

// How many steps ahead rows are read.
inline constexpr size_t kStepsReadAhead = 2;

}  // namespace thinwire
