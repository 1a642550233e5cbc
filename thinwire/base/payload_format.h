// Constants that determine the size of payloads and of the sparse messages in them
// (docs/formats.md). codec/ writes and reads these, method/ predicts their bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire {

inline constexpr size_t kPayloadHeaderBytes = 40;
inline constexpr int64_t kValueFormatBytes = 1;   // number format of the values
inline constexpr int64_t kScaleBytes = 2;         // bf16
inline constexpr int64_t kSegmentEntryBytes = 4;  // in the table: bytes, Rice parameter, flag
inline constexpr int kMaxRiceParameter = 15;

// Number of tiles of a tensor that share a segment: as many as together send at most 4096 slots,
// and at least 1.
constexpr int64_t segment_tiles(int64_t kept_per_tile) {
  return std::max<int64_t>(4096 / kept_per_tile, 1);
}

// Number formats of the values in a sparse payload (docs/formats.md). The code is in
// codec/sparse.h; methods and the planner need the bits only.

// kInt8 and kOneBit are scale * q with one bf16 scale per tensor, kTwoBit is a sign and one of two
// bf16 magnitudes per tensor. Payloads contain the numbers of this enumeration.
enum class ValueFormat : uint8_t { kF32 = 0, kBf16 = 1, kInt8 = 2, kOneBit = 3, kTwoBit = 4 };

inline constexpr std::string_view kValueFormatNames[] = {"fp32", "bf16", "int8", "1bit", "2bit"};
constexpr std::span<const std::string_view> names_of(ValueFormat) { return kValueFormatNames; }

constexpr int value_bits(ValueFormat format) {
  constexpr int kBits[] = {32, 16, 8, 1, 2};
  return kBits[static_cast<size_t>(format)];
}

// Bytes of `count` values, rounded up to whole bytes.
constexpr size_t value_bytes(ValueFormat format, int64_t count) {
  return (static_cast<size_t>(count) * static_cast<size_t>(value_bits(format)) + 7) / 8;
}

}  // namespace thinwire
