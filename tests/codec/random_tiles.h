// Sparse messages for tests of the codec.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/codec/sparse.h"

namespace thinwire::codec {

struct ShapeOf {
  int64_t tiles;
  int slots;
  int kept;
};

std::vector<SparseShape> shapes_of(const std::vector<ShapeOf>& tensors);
// Up to four tensors of up to 300 slots.
std::vector<SparseShape> random_shapes(uint64_t seed);

// Uniformly random slots and normal values; a tile is full with this probability, else it has any
// smaller count.
SparseTiles random_tiles(const std::vector<SparseShape>& shapes, uint64_t seed, double full);

// Fails the test unless everything is as decode_sparse promises.
void expect_valid(const std::vector<SparseShape>& shapes, const SparseTiles& tiles);

}  // namespace thinwire::codec
