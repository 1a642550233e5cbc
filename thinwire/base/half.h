// Numbers of 16 bits: bfloat16, the upper half of an fp32 number, and IEEE 754 half precision
// (fp16). Conversion rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace thinwire {

// bfloat16: the upper half of an fp32 number. Conversion rounds to nearest, ties to even.
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

struct Half {
  uint16_t bits = 0;
};

constexpr float to_float(Half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// NaN stays NaN; values that round to more than the largest number, 65504, become infinite.
constexpr Half to_half(float value) {
  constexpr uint32_t kInfinity = 0x7f800000u, kTooLarge = 0x477ff000u, kLeastNormal = 0x38800000u;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7e00u;
  } else if (magnitude >= kTooLarge) {
    half = 0x7c00u;
  } else if (magnitude < kLeastNormal) {
    // The sum is rounded to multiples of 2^-24, of which half precision has its smallest numbers.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<uint32_t>(0.5f);
  } else {
    const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
    half = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

constexpr float round_to_half(float value) { return to_float(to_half(value)); }

}  // namespace thinwire
