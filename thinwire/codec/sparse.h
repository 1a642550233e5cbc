// Payloads of tensors of which only some slots of each tile are sent: which slots, Rice-coded, and
// their values in one of four codings. docs/formats.md describes every byte.
//
// The slots of a tile are strictly ascending. Zero values are not worth a slot, so a tile may have
// fewer than `kept`. Functions here may run on several threads for different tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

namespace thinwire::codec {

// The values' coding; kInt8 and kOneBit are scale * q with one bf16 scale a tensor.
enum class ValueCoding : uint8_t { kF32 = 0, kBf16 = 1, kInt8 = 2, kOneBit = 3 };

// One tensor: `tiles` tiles of `slots` slots (at most 65536), of which at most `kept` are sent.
struct SparseShape {
  int64_t tiles = 0;
  int slots = 0;
  int kept = 0;
  int64_t first_tile = 0;  // its place in the arrays of SparseTiles
  int64_t first_kept = 0;
};

// What one member sends of all tensors. Tile t of a tensor has count[first_tile + t] entries, which
// begin at first_kept + t * kept in `slots` and `values`.
struct SparseTiles {
  explicit SparseTiles(std::span<const SparseShape> shapes);

  std::vector<uint32_t> counts;  // a tile
  std::vector<uint16_t> slots;   // a kept slot, ascending within its tile
  std::vector<float> values;     // a kept slot
  std::vector<float> scales;     // a tensor; 0 where the coding has none
};

// Replaces the values of tensor `index` by what a receiver of `coding` gets, and sets its scale.
// Finite values only. bf16 rounds to nearest even; int8: scale = bf16(max |c| / 127), q = c / scale
// rounded half to even; 1 bit: scale = bf16(mean |c|), q = the sign.
void quantise(const SparseShape& shape, size_t index, ValueCoding coding, SparseTiles& tiles);

// Appends the section of every tensor; values must be quantised.
void encode_sparse(std::span<const SparseShape> shapes, ValueCoding coding,
                   const SparseTiles& tiles, Bytes& out);

// Reads what encode_sparse wrote into `tiles`, made for the same shapes. Any bytes give slots in
// range and strictly ascending with finite values, or kCorruptPayload.
Result<void> decode_sparse(std::span<const SparseShape> shapes, ValueCoding coding,
                           std::span<const uint8_t> bytes, SparseTiles& tiles);

}  // namespace thinwire::codec
