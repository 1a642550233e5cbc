// Constants of the format of sparse messages (docs/formats.md) that writer and reader share.
#pragma once

#include <bit>
#include <cstdint>

#include "thinwire/base/payload_format.h"
#include "thinwire/codec/sparse.h"

namespace thinwire::codec {

inline constexpr int kMaxSlotBits = 16;
inline constexpr int kMaxCountBits = 16;

// A segment's entry in the table: bytes, Rice parameter, flag.
inline constexpr int kSegmentSizeBits = 27;
inline constexpr uint32_t kPartialTiles = 1u << 31;

// Bits of the slot count of a tile that has fewer slots than are kept.
inline int bits_of_count(const SparseShape& shape) {
  return std::bit_width(static_cast<unsigned>(shape.kept - 1));
}

// Number of bf16 scales per tensor.
inline int scales_of(ValueFormat format) {
  if (format == ValueFormat::kTwoBit) return 2;
  return format == ValueFormat::kInt8 || format == ValueFormat::kOneBit ? 1 : 0;
}

}  // namespace thinwire::codec
