#include "thinwire/tensor/kernels/number_formats.h"

#include <algorithm>
#include <limits>

#include "thinwire/base/rng.h"
#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/kernels/number_formats.cpp"
#include <hwy/foreach_target.h>

#include "thinwire/tensor/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<D>;
using DI = hn::RebindToSigned<D>;
using D8 = hn::Rebind<uint8_t, D>;

constexpr int kBias = 15;

// The random bits for the values of a block from `lane` on (reference::random_bits).
HWY_INLINE hn::Vec<DU> random_bits(uint64_t of_block, size_t lane) {
  const DU d;
  auto x = hn::Add(hn::Iota(d, static_cast<uint32_t>(lane)),
                   hn::Set(d, static_cast<uint32_t>(of_block)));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x7feb352du));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Xor(x, hn::Set(d, static_cast<uint32_t>(of_block >> 32)));
  x = hn::Mul(x, hn::Set(d, 0x846ca68bu));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// The key of the random bits of the block that begins with value `first`.
HWY_INLINE uint64_t block_key(uint64_t key, int64_t first) {
  return mix_bits(key + static_cast<uint64_t>(first / kStateBlock) * 0x9e3779b97f4a7c15u);
}

void round_randomly(const float* values, int64_t count, uint64_t key, int64_t first, Bf16* to) {
  const D d;
  const DU du;
  const auto infinity = hn::Set(du, 0x7f800000u);
  for (int64_t at = 0; at < count; at += kStateBlock) {
    const uint64_t of_block = block_key(key, first + at);
    const auto length = static_cast<size_t>(std::min(kStateBlock, count - at));
    for_vectors(d, length, [&](size_t i, auto lanes) HWY_ATTR {
      const auto value = lanes.load(d, values + at + i);
      const auto bits = hn::BitCast(du, value);
      const auto moved = hn::Add(bits, hn::ShiftRight<16>(random_bits(of_block, i)));
      const auto finite = hn::Ne(hn::And(bits, infinity), infinity);
      const auto upper = hn::BitCast(d, hn::And(moved, hn::Set(du, 0xffff0000u)));
      // What is stored is already a bf16, or not finite.
      lanes.store(hn::IfThenElse(hn::RebindMask(d, finite), upper, value), d, to + at + i);
    });
  }
}

template <typename From, typename To>
void convert(const From* values, size_t count, To* to) {
  const D d;
  for_vectors(d, count, [&](size_t i, auto lanes) HWY_ATTR {
    lanes.store(lanes.load(d, values + i), d, to + i);
  });
}

void round_values(const float* values, size_t count, Bf16* to) { convert(values, count, to); }
void widen_values(const Bf16* values, size_t count, float* to) { convert(values, count, to); }

// One whole block; returns its exponent.
template <BlockCode kCode>
HWY_INLINE uint32_t encode_block(const float* values, uint64_t of_block, uint8_t* codes) {
  constexpr int kMantissa = mantissa_bits(kCode), kDropped = 23 - kMantissa;
  const uint32_t exponent = (largest_magnitude(values, kStateBlock) + (1u << kDropped) - 1) >> 23;
  if (exponent > kMaxBlockExponent) return exponent;
  if (exponent < kMinBlockExponent) {
    std::fill_n(codes, kStateBlock, uint8_t{0});
    return 0;
  }
  const D d;
  const DU du;
  const DI di;
  const auto one = hn::Set(di, 1);
  for (size_t i = 0; i < kStateBlock; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(du, hn::LoadU(d, values + i));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto field = hn::Sub(hn::BitCast(di, hn::ShiftRight<23>(magnitude)),
                               hn::Set(di, static_cast<int32_t>(exponent) - kBias));
    const auto below = hn::Max(hn::Zero(di), hn::Sub(one, field));
    const auto most = hn::Set(di, 31 - kDropped);
    const auto shift = hn::BitCast(du, hn::Add(hn::Min(below, most), hn::Set(di, kDropped)));
    const auto random = hn::Shr(random_bits(of_block, i), hn::Sub(hn::Set(du, 32u), shift));
    const auto significand =
        hn::Or(hn::And(magnitude, hn::Set(du, 0x7fffffu)), hn::Set(du, 0x800000u));
    const auto rounded = hn::BitCast(di, hn::Shr(hn::Add(significand, random), shift));
    const auto binades = hn::Max(hn::Zero(di), hn::Sub(field, one));
    auto code = hn::Add(hn::IfThenZeroElse(hn::Gt(below, most), rounded),
                        hn::ShiftLeft<kMantissa>(binades));
    if constexpr (kCode == BlockCode::kSigned) {
      code = hn::Or(code, hn::BitCast(di, hn::ShiftLeft<7>(hn::ShiftRight<31>(bits))));
    } else {
      // At least 1, but for 0.
      code = hn::Max(code, hn::Min(hn::BitCast(di, magnitude), one));
    }
    hn::StoreU(hn::DemoteTo(D8(), code), D8(), codes + i);
  }
  return exponent;
}

template <BlockCode kCode>
HWY_INLINE void decode_block(const uint8_t* codes, uint32_t exponent, float* to) {
  if (exponent < kMinBlockExponent || exponent > kMaxBlockExponent) {
    const float all = exponent == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
    std::fill_n(to, kStateBlock, all);
    return;
  }
  constexpr int kMantissa = mantissa_bits(kCode), kDropped = 23 - kMantissa;
  const D d;
  const DU du;
  const DI di;
  const auto base = hn::Set(du, (exponent - kBias) << 23);
  const auto unit = hn::BitCast(d, hn::Set(du, (exponent - kBias + 1 - kMantissa) << 23));
  for (size_t i = 0; i < kStateBlock; i += hn::Lanes(d)) {
    const auto bits = hn::PromoteTo(du, hn::LoadU(D8(), codes + i));
    const bool is_signed = kCode == BlockCode::kSigned;
    const auto magnitude = is_signed ? hn::And(bits, hn::Set(du, 0x7fu)) : bits;
    const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<kDropped>(magnitude), base));
    const auto number = hn::BitCast(di, magnitude);
    const auto subnormal = hn::Mul(hn::ConvertTo(d, number), unit);
    const auto is_normal = hn::RebindMask(d, hn::Gt(number, hn::Set(di, (1 << kMantissa) - 1)));
    auto value = hn::IfThenElse(is_normal, normal, subnormal);
    if constexpr (is_signed) {
      const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80u)));
      value = hn::Or(value, hn::BitCast(d, sign));
    }
    hn::StoreU(value, d, to + i);
  }
}

template <BlockCode kCode>
bool encode(const float* values, int64_t count, uint64_t key, int64_t first, uint8_t* codes,
            uint8_t* exponents) {
  for (int64_t at = 0; at < count; at += kStateBlock) {
    const float* block = values + at;
    float padded[kStateBlock];
    if (count - at < kStateBlock) {
      std::fill(std::copy(block, values + count, padded), padded + kStateBlock, 0.0f);
      block = padded;
    }
    const uint32_t exponent = encode_block<kCode>(block, block_key(key, first + at), codes + at);
    if (exponent > kMaxBlockExponent) return false;
    exponents[at / kStateBlock] = static_cast<uint8_t>(exponent);
  }
  return true;
}

template <BlockCode kCode>
void decode(const uint8_t* codes, const uint8_t* exponents, int64_t count, float* to) {
  for (int64_t at = 0; at < count; at += kStateBlock) {
    const uint32_t exponent = exponents[at / kStateBlock];
    if (count - at >= kStateBlock) {
      decode_block<kCode>(codes + at, exponent, to + at);
    } else {
      float padded[kStateBlock];
      decode_block<kCode>(codes + at, exponent, padded);
      std::copy_n(padded, count - at, to + at);
    }
  }
}

bool encode_signed(const float* values, int64_t count, uint64_t key, int64_t first, uint8_t* codes,
                   uint8_t* exponents) {
  return encode<BlockCode::kSigned>(values, count, key, first, codes, exponents);
}
bool encode_magnitude(const float* values, int64_t count, uint64_t key, int64_t first,
                      uint8_t* codes, uint8_t* exponents) {
  return encode<BlockCode::kMagnitude>(values, count, key, first, codes, exponents);
}
void decode_signed(const uint8_t* codes, const uint8_t* exponents, int64_t count, float* to) {
  decode<BlockCode::kSigned>(codes, exponents, count, to);
}
void decode_magnitude(const uint8_t* codes, const uint8_t* exponents, int64_t count, float* to) {
  decode<BlockCode::kMagnitude>(codes, exponents, count, to);
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(round_randomly);
HWY_EXPORT(round_values);
HWY_EXPORT(widen_values);
HWY_EXPORT(encode_signed);
HWY_EXPORT(encode_magnitude);
HWY_EXPORT(decode_signed);
HWY_EXPORT(decode_magnitude);

uint64_t rounding_key(uint64_t seed, uint64_t kind, uint64_t tensor, uint64_t step) {
  return derive_seed(derive_seed(derive_seed(seed, kind), tensor), step);
}

void round_stochastically(const float* values, int64_t count, uint64_t key, int64_t first,
                          Bf16* to) {
  HWY_DYNAMIC_DISPATCH(round_randomly)(values, count, key, first, to);
}

void round_to_nearest(const float* values, int64_t count, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(round_values)(values, static_cast<size_t>(count), to);
}

void widen(const Bf16* values, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(widen_values)(values, static_cast<size_t>(count), to);
}

bool encode_blocks(BlockCode code, const float* values, int64_t count, uint64_t key, int64_t first,
                   uint8_t* codes, uint8_t* exponents) {
  return code == BlockCode::kSigned
             ? HWY_DYNAMIC_DISPATCH(encode_signed)(values, count, key, first, codes, exponents)
             : HWY_DYNAMIC_DISPATCH(encode_magnitude)(values, count, key, first, codes, exponents);
}

void decode_blocks(BlockCode code, const uint8_t* codes, const uint8_t* exponents, int64_t count,
                   float* to) {
  if (code == BlockCode::kSigned) {
    HWY_DYNAMIC_DISPATCH(decode_signed)(codes, exponents, count, to);
  } else {
    HWY_DYNAMIC_DISPATCH(decode_magnitude)(codes, exponents, count, to);
  }
}

}  // namespace thinwire::tensor
#endif
