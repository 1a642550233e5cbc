// Sparse messages as dense rows of values, zeros included, for code that compares members
// coordinate by coordinate (codec/aggregation.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/codec/aggregation.h"
#include "thinwire/codec/sparse.h"

namespace thinwire::codec {

// Of all values of a message whose segments are decoded.
Magnitude magnitude_of(const SparseMessage& message, std::span<const SparseShape> shapes);

// One tile of several messages. One object per thread: it owns the rows.
class SparseRows {
 public:
  // Before the tiles of a segment, which come in order.
  void begin(size_t messages) { read_.assign(messages, 0); }
  // What each message sends of tile `tile` of the segment's tensor, as shape.slots values. All
  // messages are decoded. Valid until the next call.
  std::span<const float* const> expand(std::span<const SparseMessage> messages, size_t segment,
                                       const SparseShape& shape, int64_t tile);

 private:
  std::vector<int64_t> read_;    // by message: entries of the segment used so far
  std::vector<float> received_;  // of one message and tile
  std::vector<float> rows_;
  std::vector<const float*> places_;
};

}  // namespace thinwire::codec
