// bfloat16: the upper half of an fp32 number. Conversion rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace thinwire {

struct Bf16 {
  uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

// NaN stays NaN; values beyond the largest bfloat16 become infinite.
constexpr Bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr float round_to_bf16(float value) { return to_float(to_bf16(value)); }

}  // namespace thinwire
