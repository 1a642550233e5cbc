// Number formats of the values in a sparse payload (docs/formats.md). The code is in
// codec/sparse.h; methods and the planner need the bits only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire {

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
