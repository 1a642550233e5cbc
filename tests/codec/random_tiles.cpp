#include "tests/codec/random_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "thinwire/base/rng.h"

namespace thinwire::codec {

std::vector<SparseShape> shapes_of(const std::vector<ShapeOf>& tensors) {
  std::vector<SparseShape> shapes;
  int64_t tiles = 0;
  int64_t kept = 0;
  for (const ShapeOf& tensor : tensors) {
    shapes.push_back({tensor.tiles, tensor.slots, tensor.kept, tiles, kept});
    tiles += tensor.tiles;
    kept += tensor.tiles * tensor.kept;
  }
  return shapes;
}

std::vector<SparseShape> random_shapes(uint64_t seed) {
  Rng rng(seed, 1);
  std::vector<ShapeOf> tensors;
  for (uint64_t i = 0; i <= rng.below(4); ++i) {
    const int slots = 1 + static_cast<int>(rng.below(300));
    const int kept = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(slots)));
    tensors.push_back({1 + static_cast<int64_t>(rng.below(20)), slots, kept});
  }
  return shapes_of(tensors);
}

SparseTiles random_tiles(const std::vector<SparseShape>& shapes, uint64_t seed, double full) {
  Rng rng(seed, 2);
  SparseTiles tiles(shapes);
  for (const SparseShape& shape : shapes) {
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto kept = static_cast<uint64_t>(shape.kept);
      const uint64_t count = rng.uniform() < full ? kept : rng.below(kept);
      std::set<uint16_t> slots;
      while (slots.size() < count) {
        slots.insert(static_cast<uint16_t>(rng.below(static_cast<uint64_t>(shape.slots))));
      }
      auto at = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      tiles.counts[static_cast<size_t>(shape.first_tile + tile)] = static_cast<uint32_t>(count);
      for (const uint16_t slot : slots) {
        tiles.slots[at] = slot;
        tiles.values[at++] = static_cast<float>(rng.normal());
      }
    }
  }
  return tiles;
}

void expect_valid(const std::vector<SparseShape>& shapes, const SparseTiles& tiles) {
  for (const SparseShape& shape : shapes) {
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      const size_t count = tiles.counts[static_cast<size_t>(shape.first_tile + tile)];
      ASSERT_LE(count, static_cast<size_t>(shape.kept));
      for (size_t i = first; i < first + count; ++i) {
        ASSERT_LT(tiles.slots[i], shape.slots);
        ASSERT_TRUE(i == first || tiles.slots[i - 1] < tiles.slots[i]);
        ASSERT_TRUE(std::isfinite(tiles.values[i]));
      }
    }
  }
}

}  // namespace thinwire::codec
