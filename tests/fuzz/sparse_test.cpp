// Runs the fuzz target briefly: on encoded messages, damaged ones, and noise.
#include "thinwire/codec/sparse.h"

#include <gtest/gtest.h>

#include "target.h"
#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

// A valid input of the target.
Bytes message(uint8_t format) {
  const std::vector<SparseShape> shapes = {
      {4, 64, 3, 0, 0}, {2, 5, 1, 4, 12}, {1, 65536, 9, 6, 14}, {3, 8, 8, 7, 23}};
  SparseTiles tiles(shapes);
  Rng rng(3, format);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const SparseShape& shape = shapes[i];
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto sent = static_cast<int>(rng.below(static_cast<uint64_t>(shape.kept) + 1));
      tiles.counts[static_cast<size_t>(shape.first_tile + tile)] = static_cast<uint32_t>(sent);
      for (int entry = 0; entry < sent; ++entry) {
        const auto at = static_cast<size_t>(shape.first_kept + tile * shape.kept + entry);
        tiles.slots[at] = static_cast<uint16_t>(entry * (shape.slots / shape.kept));
        tiles.values[at] = static_cast<float>(rng.normal());
      }
    }
    quantise(shape, i, static_cast<ValueFormat>(format), tiles);
  }
  Bytes bytes = {format};
  encode_sparse(shapes, static_cast<ValueFormat>(format), tiles, bytes);
  return bytes;
}

TEST(SparseFuzz, TargetSurvivesDamagedMessagesAndNoise) {
  Rng rng(1, 1);
  for (int round = 0; round < 20000; ++round) {
    Bytes input = message(static_cast<uint8_t>(round % 5));
    for (uint64_t i = 0; i < rng.below(6); ++i) {
      input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
    fuzz_sparse(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_sparse(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::codec
