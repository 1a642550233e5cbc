#include "thinwire/tensor/kernels/number_formats_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "thinwire/base/rng.h"

namespace thinwire::tensor::reference {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr int kBias = 15;  // of a code's exponent: its highest binade is the block's

int dropped_bits(BlockCode code) { return 23 - mantissa_bits(code); }

}  // namespace

uint32_t random_bits(uint64_t key, int64_t index) {
  const auto block = static_cast<uint64_t>(index / kStateBlock);
  const uint64_t of_block = mix_bits(key + block * 0x9e3779b97f4a7c15u);
  uint32_t x = static_cast<uint32_t>(of_block) + static_cast<uint32_t>(index % kStateBlock);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15) ^ static_cast<uint32_t>(of_block >> 32)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

Bf16 round_stochastically(float value, uint32_t random) {
  if (!std::isfinite(value)) return to_bf16(value);
  return {static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + (random >> 16)) >> 16)};
}

uint32_t block_exponent(BlockCode code, std::span<const float> values) {
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & kMagnitudeMask);
  }
  // Rounded up, so that no value of the block rounds beyond the highest code.
  const uint32_t exponent = (largest + (1u << dropped_bits(code)) - 1) >> 23;
  if (exponent < kMinBlockExponent) return 0;
  return std::min(exponent, kMaxBlockExponent + 1);
}

uint8_t encode(BlockCode code, float value, uint32_t exponent, uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & kMagnitudeMask;
  const int field = static_cast<int>(magnitude >> 23) - static_cast<int>(exponent) + kBias;
  const int shift = dropped_bits(code) + std::max(0, 1 - field);
  uint32_t result = 0;
  if (shift <= 31) {
    const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    result = (significand + (random >> (32 - shift))) >> shift;
    result += static_cast<uint32_t>(std::max(field - 1, 0)) << mantissa_bits(code);
  }
  if (code == BlockCode::kSigned) return static_cast<uint8_t>(result | bits >> 31 << 7);
  return static_cast<uint8_t>(magnitude == 0 ? 0 : std::max(result, 1u));
}

float decode(BlockCode code, uint8_t bits, uint32_t exponent) {
  if (exponent == 0) return 0;
  if (exponent < kMinBlockExponent || exponent > kMaxBlockExponent) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const bool is_signed = code == BlockCode::kSigned;
  const int magnitude = is_signed ? bits & 0x7f : bits;
  const int mantissa = mantissa_bits(code);
  const int field = magnitude >> mantissa;
  const int rest = magnitude - (field << mantissa);
  const int significand = field == 0 ? rest : rest + (1 << mantissa);
  const int scale = static_cast<int>(exponent) - 127 - kBias + std::max(field, 1) - mantissa;
  const float value = std::ldexp(static_cast<float>(significand), scale);
  return is_signed && (bits & 0x80) != 0 ? -value : value;
}

}  // namespace thinwire::tensor::reference
