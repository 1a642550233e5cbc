#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "thinwire/base/half.h"
#include "thinwire/base/simd.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/wire.h"

// Loops are elementwise, on integer bits where possible, and sums write out their lanes, so every
// instruction set gives the same bits. Values that share a byte are far apart in the block, so that
// packing them needs no shuffles.
#define THINWIRE_INLINE inline __attribute__((always_inline))

namespace thinwire::codec {
namespace {

constexpr size_t kBlock = wire_block(WireType::kFp4);
constexpr uint32_t kMagnitude = 0x7fffffffu;

THINWIRE_INLINE uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
THINWIRE_INLINE float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

// Blocks with a smaller scale become zeros, so that everything below stays within normal numbers.
constexpr float kSmallestScale = 0x1p-100f;

// Writes the block's scale and returns it as receivers see it.
THINWIRE_INLINE float put_scale(float scale, uint8_t* out) {
  const Bf16 rounded = scale < kSmallestScale ? Bf16{} : to_bf16(scale);
  std::memcpy(out, &rounded, sizeof(rounded));
  return to_float(rounded);
}

THINWIRE_INLINE float get_scale(const uint8_t* in) {
  Bf16 scale;
  std::memcpy(&scale, in, sizeof(scale));
  return to_float(scale);
}

// NaN counts as larger than infinity.
THINWIRE_INLINE float largest_magnitude(const float* x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return float_of(largest);
}

// Sum in 16 lanes, value i in lane i % 16, halved until one is left.
THINWIRE_INLINE float mean_magnitude(const float* x, size_t count) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += std::fabs(x[i + lane]);
  }
  for (size_t lane = 0; i + lane < count; ++lane) sums[lane] += std::fabs(x[i + lane]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0] / static_cast<float>(count);
}

THINWIRE_INLINE bool valid_scale(float scale) { return scale >= 0 && std::isfinite(2 * scale); }

// Runs body(values of the block, its length, its bytes, their number) for the full blocks, with a
// length known to the compiler, and then for the rest.
template <typename Value, typename Byte, typename Body>
THINWIRE_INLINE void for_blocks(WireType type, Value* values, size_t count, Byte* bytes,
                                const Body& body) {
  const size_t block_bytes = wire_bytes(type, kBlock);
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock, bytes += block_bytes) body(values + i, kBlock, bytes);
  if (i < count) body(values + i, count - i, bytes);
}

// Nearest E4M3, ties to even, of |x| * by; saturates at 448. Zero has no sign.
THINWIRE_INLINE uint32_t to_e4m3(float x, float by) {
  const float scaled = float_of(bits_of(x) & kMagnitude) * by;
  const float magnitude = scaled < 448.0f ? scaled : 448.0f;
  const uint32_t bits = bits_of(magnitude);
  const uint32_t normal = ((bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20) - (120u << 3);
  // Below 2^-6 values are multiples of 2^-9, the last bit of 2^14.
  const uint32_t subnormal = bits_of(magnitude + 16384.0f) & 0xffu;
  const uint32_t code = magnitude < 0x1p-6f ? subnormal : normal;
  return code == 0 ? 0 : code | ((bits_of(x) >> 24) & 0x80u);
}

THINWIRE_INLINE float from_e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f;
  const float value = magnitude < 8 ? subnormal : float_of((magnitude << 20) + (120u << 23));
  return float_of(bits_of(value) | (code & 0x80u) << 24);
}

// The bits of the smallest magnitude with code 1, which is half of the smallest level, and of the
// smallest with code 2, which is the middle between the first two levels (ties go to the larger).
// From there on each code begins at twice the magnitude of the one before, one exponent higher.
struct E3m0Borders {
  int32_t first;
  int32_t second;
};

THINWIRE_INLINE E3m0Borders e3m0_borders(float scale) {
  return {std::bit_cast<int32_t>(scale * 0x1p-7f), std::bit_cast<int32_t>(scale * 0x3p-7f)};
}

THINWIRE_INLINE uint32_t to_e3m0(float x, E3m0Borders borders) {
  const auto magnitude = static_cast<int32_t>(bits_of(x) & kMagnitude);
  const int32_t above = ((magnitude - borders.second) >> 23) + 2;
  const int32_t code = above < 1 ? 1 : above > 7 ? 7 : above;
  const uint32_t sign = bits_of(x) >> 28 & 8u;
  return magnitude >= borders.first ? static_cast<uint32_t>(code) | sign : 0u;
}

THINWIRE_INLINE float from_e3m0(uint32_t code, float scale) {
  const uint32_t e = code & 7u;
  const float magnitude = scale * float_of((e + 120u) << 23);
  return e == 0 ? 0.0f : float_of(bits_of(magnitude) | (code & 8u) << 28);
}

// Codes of kBits bits; byte j has those of values j, n + j, 2 n + j, ... with n the number of
// bytes, the first in the lowest bits.
template <size_t kBits, typename Code>
THINWIRE_INLINE void pack(const float* __restrict x, size_t count, uint8_t* __restrict to,
                          bool zeros, const Code& code) {
  constexpr size_t kParts = 8 / kBits;
  const size_t bytes = (count + kParts - 1) / kParts;
  std::memset(to, 0, bytes);
  if (zeros) return;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t first = std::min(part * bytes, count);
    const size_t last = std::min(first + bytes, count);
    for (size_t i = first; i < last; ++i) {
      to[i - first] |= static_cast<uint8_t>(code(x[i]) << kBits * part);
    }
  }
}

// `value` gets a code with other bits above it.
template <size_t kBits, typename Value>
THINWIRE_INLINE void unpack(float* __restrict x, size_t count, const uint8_t* __restrict from,
                            const Value& value) {
  constexpr size_t kParts = 8 / kBits;
  const size_t bytes = (count + kParts - 1) / kParts;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t first = std::min(part * bytes, count);
    const size_t last = std::min(first + bytes, count);
    for (size_t i = first; i < last; ++i) {
      x[i] = value(static_cast<uint32_t>(from[i - first]) >> kBits * part);
    }
  }
}

THINWIRE_INLINE uint32_t to_int2(float x, int32_t border) {
  const uint32_t large = static_cast<int32_t>(bits_of(x) & kMagnitude) >= border ? 2u : 0u;
  return large | (x < 0 ? 1u : 0u);
}

THINWIRE_INLINE float from_int2(uint32_t code, float scale) {
  const float magnitude = (code & 2u) != 0 ? 2 * scale : 0.5f * scale;
  return float_of(bits_of(magnitude) | (code & 1u) << 31);
}

}  // namespace

THINWIRE_CLONES void encode_fp8(std::span<const float> values, std::span<uint8_t> out) {
  const auto block = [](const float* __restrict x, size_t count, uint8_t* __restrict to)
      __attribute__((always_inline)) {
    const float scale = put_scale(largest_magnitude(x, count), to);
    if (scale == 0) {
      std::memset(to + 2, 0, count);
      return;
    }
    const float by = 448.0f / scale;
    for (size_t i = 0; i < count; ++i) to[2 + i] = static_cast<uint8_t>(to_e4m3(x[i], by));
  };
  for_blocks(WireType::kFp8, values.data(), values.size(), out.data(), block);
}

THINWIRE_CLONES bool decode_fp8(std::span<const uint8_t> in, std::span<float> values) {
  bool valid = true;
  const auto block = [&valid](float* __restrict x, size_t count, const uint8_t* __restrict from)
      __attribute__((always_inline)) {
    const float scale = get_scale(from);
    const float by = scale / 448.0f;
    uint32_t nans = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t code = from[2 + i];
      nans |= (code & 0x7fu) == 0x7fu ? 1u : 0u;
      x[i] = from_e4m3(code) * by;
    }
    valid = valid && valid_scale(scale) && nans == 0;
  };
  for_blocks(WireType::kFp8, values.data(), values.size(), in.data(), block);
  return valid;
}

THINWIRE_CLONES void encode_fp4(std::span<const float> values, std::span<uint8_t> out) {
  const auto block = [](const float* __restrict x, size_t count, uint8_t* __restrict to)
      __attribute__((always_inline)) {
    const size_t half = (count + 1) / 2;
    const float scale = put_scale(largest_magnitude(x, count), to);
    if (scale == 0) {
      std::memset(to + 2, 0, half);
      return;
    }
    const E3m0Borders borders = e3m0_borders(scale);
    for (size_t i = 0; i < count - half; ++i) {
      to[2 + i] = static_cast<uint8_t>(to_e3m0(x[i], borders) | to_e3m0(x[half + i], borders) << 4);
    }
    if (count % 2 != 0) to[2 + half - 1] = static_cast<uint8_t>(to_e3m0(x[half - 1], borders));
  };
  for_blocks(WireType::kFp4, values.data(), values.size(), out.data(), block);
}

THINWIRE_CLONES bool decode_fp4(std::span<const uint8_t> in, std::span<float> values) {
  bool valid = true;
  const auto block = [&valid](float* __restrict x, size_t count, const uint8_t* __restrict from)
      __attribute__((always_inline)) {
    const size_t half = (count + 1) / 2;
    const float scale = get_scale(from);
    for (size_t i = 0; i < half; ++i) x[i] = from_e3m0(from[2 + i], scale);
    for (size_t i = 0; i < count - half; ++i) x[half + i] = from_e3m0(from[2 + i] >> 4, scale);
    valid = valid && valid_scale(scale);
  };
  for_blocks(WireType::kFp4, values.data(), values.size(), in.data(), block);
  return valid;
}

THINWIRE_CLONES void encode_int2(std::span<const float> values, std::span<uint8_t> out) {
  const auto block = [](const float* __restrict x, size_t count, uint8_t* __restrict to)
      __attribute__((always_inline)) {
    const float scale = put_scale(mean_magnitude(x, count), to);
    const auto border = std::bit_cast<int32_t>(1.25f * scale);
    pack<2>(
        x, count, to + 2, scale == 0, [border](float value) __attribute__((always_inline)) {
          return to_int2(value, border);
        });
  };
  for_blocks(WireType::kInt2, values.data(), values.size(), out.data(), block);
}

THINWIRE_CLONES bool decode_int2(std::span<const uint8_t> in, std::span<float> values) {
  bool valid = true;
  const auto block = [&valid](float* __restrict x, size_t count, const uint8_t* __restrict from)
      __attribute__((always_inline)) {
    const float scale = get_scale(from);
    unpack<2>(
        x, count, from + 2, [scale](uint32_t code) __attribute__((always_inline)) {
          return scale == 0 ? 0.0f : from_int2(code, scale);
        });
    valid = valid && valid_scale(scale);
  };
  for_blocks(WireType::kInt2, values.data(), values.size(), in.data(), block);
  return valid;
}

THINWIRE_CLONES void encode_int1(std::span<const float> values, std::span<uint8_t> out) {
  const auto block = [](const float* __restrict x, size_t count, uint8_t* __restrict to)
      __attribute__((always_inline)) {
    const float scale = put_scale(mean_magnitude(x, count), to);
    pack<1>(
        x, count, to + 2, scale == 0,
        [](float value) __attribute__((always_inline)) { return value < 0 ? 1u : 0u; });
  };
  for_blocks(WireType::kInt1, values.data(), values.size(), out.data(), block);
}

THINWIRE_CLONES bool decode_int1(std::span<const uint8_t> in, std::span<float> values) {
  bool valid = true;
  const auto block = [&valid](float* __restrict x, size_t count, const uint8_t* __restrict from)
      __attribute__((always_inline)) {
    const float scale = get_scale(from);
    unpack<1>(
        x, count, from + 2, [scale](uint32_t code) __attribute__((always_inline)) {
          return scale == 0 ? 0.0f : float_of(bits_of(scale) | (code & 1u) << 31);
        });
    valid = valid && valid_scale(scale);
  };
  for_blocks(WireType::kInt1, values.data(), values.size(), in.data(), block);
  return valid;
}

}  // namespace thinwire::codec
