// The passes of portable_passes.h over state that is kept in fewer bits than fp32
// (number_formats.h): values are read, changed and stored again, rounded with the same random bits
// as on the host, so the results have the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "thinwire/base/half.h"
#include "thinwire/base/number_format.h"
#include "thinwire/tensor/kernels/number_formats.h"
#include "thinwire/tensor/kernels/portable_passes.h"

namespace thinwire::tensor {

// A piece of an optimizer's state of one tensor in a device's memory, and the key of a step's
// rounding.
struct CodedPiece {
  uint64_t key;
  BlockCode code;      // in 8 bits
  Bf16* bf16;          // null in 8 bits
  uint8_t* codes;      // null in bf16
  uint8_t* exponents;  // of blocks of kStateBlock codes
};

// What number_formats.cpp computes with vectors, for single values.
struct CodedValue {
  // The random bits for value `lane` of the block that begins with value `first`.
  THINWIRE_DEVICE static uint32_t random_bits(uint64_t key, int64_t first, int64_t lane) {
    const uint64_t of_block = mix(key + static_cast<uint64_t>(first / kStateBlock) * kMixStep);
    uint32_t x = static_cast<uint32_t>(lane) + static_cast<uint32_t>(of_block);
    x = (x ^ x >> 16) * 0x7feb352du;
    x ^= x >> 15;
    x = (x ^ static_cast<uint32_t>(of_block >> 32)) * 0x846ca68bu;
    return x ^ x >> 16;
  }

  THINWIRE_DEVICE static Bf16 round_randomly(float value, uint32_t random) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    if (!finite) return to_bf16(value);
    return {static_cast<uint16_t>((bits + (random >> 16)) >> 16)};
  }

  // The exponent of a block with this largest magnitude; more than kMaxBlockExponent if it cannot
  // be encoded, 0 for a block of zeros.
  THINWIRE_DEVICE static uint32_t exponent_of(float largest, BlockCode code) {
    const uint32_t bits = std::bit_cast<uint32_t>(largest);
    const uint32_t exponent = (bits + (1u << (23 - mantissa_bits(code))) - 1) >> 23;
    return exponent < kMinBlockExponent ? 0 : exponent;
  }

  THINWIRE_DEVICE static uint8_t encode(float value, uint32_t exponent, uint32_t random,
                                        BlockCode code) {
    if (exponent == 0) return 0;
    const int mantissa = mantissa_bits(code), dropped = 23 - mantissa, most = 31 - dropped;
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    const int field = static_cast<int>(magnitude >> 23) - (static_cast<int>(exponent) - kBias);
    const int below = field < 1 ? 1 - field : 0;
    const int shift = (below < most ? below : most) + dropped;
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t rounded = (significand + (random >> (32 - shift))) >> shift;
    uint32_t number = below > most ? 0 : rounded;
    number += static_cast<uint32_t>(field > 1 ? field - 1 : 0) << mantissa;
    if (code == BlockCode::kSigned) return static_cast<uint8_t>(number | bits >> 31 << 7);
    // At least 1, but for 0.
    return static_cast<uint8_t>(number == 0 && magnitude != 0 ? 1 : number);
  }

  THINWIRE_DEVICE static float decode(uint8_t number, uint32_t exponent, BlockCode code) {
    if (exponent < kMinBlockExponent || exponent > kMaxBlockExponent) {
      return exponent == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
    }
    const int mantissa = mantissa_bits(code);
    const bool is_signed = code == BlockCode::kSigned;
    const uint32_t magnitude = is_signed ? number & 0x7fu : number;
    float value = 0;
    if (magnitude >= 1u << mantissa) {
      value = std::bit_cast<float>((magnitude << (23 - mantissa)) + ((exponent - kBias) << 23));
    } else {
      const auto unit = std::bit_cast<float>((exponent - kBias + 1 - mantissa) << 23);
      value = static_cast<float>(magnitude) * unit;
    }
    return is_signed && (number & 0x80u) != 0 ? -value : value;
  }

 private:
  static constexpr int kBias = 15;
  static constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15u;

  // base/rng.h
  THINWIRE_DEVICE static uint64_t mix(uint64_t x) {
    x += kMixStep;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
};

// Changes `count` values of each piece, a block of kStateBlock for each row. Pass::operator()(i,
// values, writes) replaces values[piece] of element i; it is called once or twice, and may change
// memory of its own in the call with `writes`.
template <typename Pass>
struct ChangeCoded {
  static constexpr int kBlockThreads = kStateBlock;
  int64_t rows() const { return state_blocks(count); }

  Pass pass;
  int64_t count;
  CodedPiece pieces[Pass::kPieces];
  int32_t* failed;  // becomes 1 if a value cannot be encoded because it is not finite

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t first = row * kStateBlock;
    const int64_t size = first + kStateBlock < count ? kStateBlock : count - first;
    uint32_t before[Pass::kPieces] = {}, after[Pass::kPieces] = {};
    if (pieces[0].codes != nullptr) {
      for (int piece = 0; piece < Pass::kPieces; ++piece) {
        before[piece] = pieces[piece].exponents[row];
      }
      choose_exponents(lanes, first, size, before, after);
    }
    for (int64_t lane = lanes.index(); lane < size; lane += lanes.count()) {
      float values[Pass::kPieces];
      read(first + lane, before, values);
      pass(first + lane, values, true);
      store(first, lane, after, values);
    }
    if (pieces[0].codes == nullptr || lanes.index() != 0) return;
    for (int piece = 0; piece < Pass::kPieces; ++piece) {
      if (after[piece] > kMaxBlockExponent) *failed = 1;
      pieces[piece].exponents[row] = static_cast<uint8_t>(after[piece]);
    }
  }

 private:
  // A barrier: no lane stores before all have read the exponents of before.
  template <typename Lanes>
  THINWIRE_DEVICE void choose_exponents(Lanes& lanes, int64_t first, int64_t size,
                                        const uint32_t* before, uint32_t* after) const {
    float largest[Pass::kPieces] = {};
    for (int64_t lane = lanes.index(); lane < size; lane += lanes.count()) {
      float values[Pass::kPieces];
      read(first + lane, before, values);
      pass(first + lane, values, false);
      for (int piece = 0; piece < Pass::kPieces; ++piece) {
        const float magnitude = std::fabs(values[piece]);
        // Maxima leave out what is no number, so it counts as infinite.
        const bool finite = magnitude <= std::numeric_limits<float>::max();
        const float counted = finite ? magnitude : std::numeric_limits<float>::infinity();
        largest[piece] = counted > largest[piece] ? counted : largest[piece];
      }
    }
    for (int piece = 0; piece < Pass::kPieces; ++piece) {
      after[piece] = CodedValue::exponent_of(lanes.maximum(largest[piece]), pieces[piece].code);
    }
  }

  THINWIRE_DEVICE void read(int64_t i, const uint32_t* exponents, float* values) const {
    for (int piece = 0; piece < Pass::kPieces; ++piece) {
      const CodedPiece& from = pieces[piece];
      values[piece] = from.codes == nullptr
                          ? to_float(from.bf16[i])
                          : CodedValue::decode(from.codes[i], exponents[piece], from.code);
    }
  }

  THINWIRE_DEVICE void store(int64_t first, int64_t lane, const uint32_t* exponents,
                             const float* values) const {
    for (int piece = 0; piece < Pass::kPieces; ++piece) {
      const CodedPiece& to = pieces[piece];
      const uint32_t random = CodedValue::random_bits(to.key, first, lane);
      if (to.codes == nullptr) {
        to.bf16[first + lane] = CodedValue::round_randomly(values[piece], random);
      } else {
        to.codes[first + lane] =
            CodedValue::encode(values[piece], exponents[piece], random, to.code);
      }
    }
  }
};

// Changes AdamW's m and v, and the parameter.
struct AdamwValue {
  static constexpr int kPieces = 2;

  AdamwRule rule;
  const float* gradient;
  float* params;

  THINWIRE_DEVICE void operator()(int64_t i, float* values, bool writes) const {
    float p = params[i];
    adamw_step(rule, gradient[i], p, values[0], values[1]);
    if (writes) params[i] = p;
  }
};

// Changes Muon's momentum.
struct LookAheadValue {
  static constexpr int kPieces = 1;

  MuonRule rule;
  const float* gradient;
  float* direction;

  THINWIRE_DEVICE void operator()(int64_t i, float* values, bool writes) const {
    float ahead = 0;
    look_ahead(rule, gradient[i], values[0], ahead);
    if (writes) direction[i] = ahead;
  }
};

}  // namespace thinwire::tensor
