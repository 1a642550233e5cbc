// Sizes of the blocks in which the trainer computes, and what they make of shapes. Whoever predicts
// the memory of a run reads what the run itself reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

// Tensors of an arena begin at multiples of so many elements, 64 bytes of fp32.
inline constexpr int64_t kArenaAlignment = 16;

// The elements of an arena that a tensor of `count` takes, the gap behind it included.
constexpr int64_t padded_elements(int64_t count) {
  return (count + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Of a tile that is transformed; the numbers of its elements fit 16 bits.
inline constexpr int kMaxTileSide = 256;

// Query rows and keys of one tile of attention's scores. Products of this size run at full speed.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 512;  // a multiple of kQueryBlock

// Rows of a chunk of logits for each thread: few where that keeps a small vocabulary's logits in
// the second cache, else enough to pay for reading all weights and their gradients once a chunk.
constexpr int64_t logit_rows(int64_t vocabulary) {
  constexpr int64_t kFew = 128, kMany = 256;
  constexpr int64_t kCached = 2 << 20;  // bytes
  return kFew * vocabulary * static_cast<int64_t>(sizeof(float)) <= kCached ? kFew : kMany;
}

// Parts in which the product of a chunk's logits back to the model's width is summed.
inline constexpr int64_t kLogitParts = 2;

// Steps whose rows are read ahead.
inline constexpr size_t kStepsReadAhead = 2;

}  // namespace thinwire
