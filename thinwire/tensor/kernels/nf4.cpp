#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "thinwire/tensor/kernels/encoded.h"
#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/kernels/nf4.cpp"
#include <hwy/foreach_target.h>

#include "thinwire/tensor/kernels/simd-inl.h"

// Once, outside the target namespaces.
#ifndef THINWIRE_TENSOR_NF4_COMMON_
#define THINWIRE_TENSOR_NF4_COMMON_

namespace thinwire::tensor {

template <size_t kCount>
constexpr std::array<float, kCount - 1> middles(const std::array<float, kCount>& values) {
  std::array<float, kCount - 1> all = {};
  for (size_t i = 0; i + 1 < kCount; ++i) all[i] = (values[i] + values[i + 1]) / 2;
  return all;
}

alignas(64) inline constexpr std::array<float, 16> kNf4Values = {-1.0f,
                                                                 -0.6961928009986877f,
                                                                 -0.5250730514526367f,
                                                                 -0.39491748809814453f,
                                                                 -0.28444138169288635f,
                                                                 -0.18477343022823334f,
                                                                 -0.09105003625154495f,
                                                                 0.0f,
                                                                 0.07958029955625534f,
                                                                 0.16093020141124725f,
                                                                 0.24611230194568634f,
                                                                 0.33791524171829224f,
                                                                 0.44070982933044434f,
                                                                 0.5626170039176941f,
                                                                 0.7229568362236023f,
                                                                 1.0f};
inline constexpr std::array<float, 15> kNf4Middles = middles(kNf4Values);
inline constexpr uint8_t kNf4Zeros = 0x77;  // two codes of 0

constexpr std::array<float, 256> make_scale_values() {
  constexpr std::array<double, 7> kPowers = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<float, 256> values = {0, 1};
  size_t at = 2;
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 1 << i; ++j) {
      const double fraction = 0.1 + 0.9 * (2 * j + 1) / (2 << i);
      const auto value = static_cast<float>(kPowers[static_cast<size_t>(i)] * fraction);
      values[at++] = value;
      values[at++] = -value;
    }
  }
  std::ranges::sort(values);
  return values;
}

inline constexpr std::array<float, 256> kScaleValues = make_scale_values();
inline constexpr std::array<float, 255> kScaleMiddles = middles(kScaleValues);

// Where the parts of an encoded tensor of `count` values begin.
template <typename Byte>
struct Nf4Parts {
  Nf4Parts(Byte* bytes, int64_t count)
      : codes(bytes),
        of_scales(bytes + kNf4Block / 2 * nf4_blocks(count)),
        mean(of_scales + 4 * nf4_scale_blocks(count)),
        scale_codes(mean + 4) {}
  Byte *codes, *of_scales, *mean, *scale_codes;
};

}  // namespace thinwire::tensor

#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using D8 = hn::Rebind<uint8_t, D>;

// The codes of a block, and its largest magnitude.
HWY_INLINE float encode_block(const float* values, uint8_t* codes) {
  const float largest = std::bit_cast<float>(largest_magnitude(values, kNf4Block));
  if (largest == 0 || !std::isfinite(largest)) {
    std::fill_n(codes, kNf4Block / 2, kNf4Zeros);
    return largest;
  }
  const D d;
  const DI di;
  alignas(64) uint8_t each[kNf4Block];
  for (size_t i = 0; i < kNf4Block; i += hn::Lanes(d)) {
    const auto value = hn::Div(hn::LoadU(d, values + i), hn::Set(d, largest));
    auto code = hn::Zero(di);
    for (const float middle : kNf4Middles) {
      const auto above = hn::RebindMask(di, hn::Gt(value, hn::Set(d, middle)));
      code = hn::Sub(code, hn::VecFromMask(di, above));
    }
    hn::StoreU(hn::DemoteTo(D8(), code), D8(), each + i);
  }
  for (int64_t i = 0; i < kNf4Block / 2; ++i) {
    codes[i] = static_cast<uint8_t>(each[2 * i] << 4 | each[2 * i + 1]);
  }
  return largest;
}

void encode_codes(const float* values, int64_t count, uint8_t* codes, float* largest) {
  for (int64_t at = 0; at < count; at += kNf4Block, codes += kNf4Block / 2) {
    if (count - at >= kNf4Block) {
      *largest++ = encode_block(values + at, codes);
    } else {
      float padded[kNf4Block] = {};
      std::copy_n(values + at, count - at, padded);
      *largest++ = encode_block(padded, codes);
    }
  }
}

HWY_INLINE hn::Vec<D> values_of(hn::Vec<DI> codes) {
  const D d;
  const float* const values = kNf4Values.data();
  if constexpr (hn::MaxLanes(D()) >= 16) {
    return hn::TableLookupLanes(hn::Load(d, values), hn::IndicesFromVec(d, codes));
  } else if constexpr (hn::MaxLanes(D()) == 8) {
    const DI di;
    const auto index = hn::IndicesFromVec(d, hn::And(codes, hn::Set(di, 7)));
    const auto is_upper = hn::RebindMask(d, hn::Gt(codes, hn::Set(di, 7)));
    return hn::IfThenElse(is_upper, hn::TableLookupLanes(hn::Load(d, values + 8), index),
                          hn::TableLookupLanes(hn::Load(d, values), index));
  } else {
    return hn::GatherIndex(d, values, codes);
  }
}

// The codes of a block, a byte each.
HWY_INLINE void separate(const uint8_t* codes, uint8_t* each) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kNf4Block / 2; ++i) {
    each[2 * i] = codes[i] >> 4;
    each[2 * i + 1] = codes[i] & 15;
  }
#else
  const hn::FixedTag<uint8_t, 16> d;  // of half a block
  for (size_t i = 0; i < 2; ++i) {
    const auto both = hn::LoadU(d, codes + 16 * i);
    const auto first = hn::ShiftRight<4>(both), second = hn::And(both, hn::Set(d, 15));
    hn::Store(hn::InterleaveLower(d, first, second), d, each + 32 * i);
    hn::Store(hn::InterleaveUpper(d, first, second), d, each + 32 * i + 16);
  }
#endif
}

template <typename T>
HWY_INLINE void decode_block(const uint8_t* codes, float scale, T* to) {
  alignas(64) uint8_t each[kNf4Block];
  separate(codes, each);
  const D d;
  for (size_t i = 0; i < kNf4Block; i += hn::Lanes(d)) {
    const auto code = hn::PromoteTo(DI(), hn::LoadU(D8(), each + i));
    Whole().store(hn::Mul(values_of(code), hn::Set(d, scale)), d, to + i);
  }
}

template <typename T>
HWY_INLINE void decode_values(const Nf4Parts<const uint8_t>& from, int64_t begin, int64_t end,
                              T* to) {
  float mean;
  std::memcpy(&mean, from.mean, sizeof mean);
  while (begin < end) {
    const int64_t block = begin / kNf4Block, skipped = begin % kNf4Block;
    const int64_t count = std::min(kNf4Block - skipped, end - begin);
    float of_scale;
    std::memcpy(&of_scale, from.of_scales + 4 * (block / kNf4ScaleBlock), sizeof of_scale);
    const float scale = mean + of_scale * kScaleValues[from.scale_codes[block]];
    const uint8_t* const codes = from.codes + kNf4Block / 2 * block;
    if (count == kNf4Block) {
      decode_block(codes, scale, to);
    } else {
      T whole[kNf4Block];
      decode_block(codes, scale, whole);
      std::copy_n(whole + skipped, count, to);
    }
    begin += count;
    to += count;
  }
}

template <typename T>
void decode_nf4_rows(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, T* to) {
  const Nf4Parts<const uint8_t> parts(from.encoded, from.rows * from.columns);
  for (int64_t r = row; r < row + rows; ++r, to += columns) {
    const int64_t begin = r * from.columns + column;
    decode_values(parts, begin, begin + columns, to);
  }
}

void decode_fp32(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, float* to) {
  decode_nf4_rows(from, row, rows, column, columns, to);
}
void decode_bf16(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, Bf16* to) {
  decode_nf4_rows(from, row, rows, column, columns, to);
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(encode_codes);
HWY_EXPORT(decode_fp32);
HWY_EXPORT(decode_bf16);

namespace {

float mean_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    sum += value;
  }
  return static_cast<float>(sum / static_cast<double>(values.size()));
}

// Encodes scales that share the scale of their codes, which is returned.
float encode_scales(std::span<const float> scales, float mean, uint8_t* codes) {
  float largest = 0;
  for (const float scale : scales) largest = std::max(largest, std::fabs(scale - mean));
  for (const float scale : scales) {
    const float value = largest > 0 ? (scale - mean) / largest : 0;
    const auto above = std::ranges::lower_bound(kScaleMiddles, value);
    *codes++ = static_cast<uint8_t>(above - kScaleMiddles.begin());
  }
  return largest;
}

}  // namespace

std::span<const float, 16> nf4_values() { return kNf4Values; }
std::span<const float, 256> nf4_scale_values() { return kScaleValues; }

void encode_nf4(std::span<const float> values, uint8_t* to) {
  const auto count = static_cast<int64_t>(values.size());
  const Nf4Parts<uint8_t> parts(to, count);
  std::vector<float> scales(static_cast<size_t>(nf4_blocks(count)));
  HWY_DYNAMIC_DISPATCH(encode_codes)(values.data(), count, parts.codes, scales.data());
  const float mean = mean_of(scales);
  std::memcpy(parts.mean, &mean, sizeof mean);
  for (size_t at = 0; at < scales.size(); at += kNf4ScaleBlock) {
    const size_t end = std::min(scales.size(), at + kNf4ScaleBlock);
    const float of_scales =
        encode_scales(std::span(scales).subspan(at, end - at), mean, parts.scale_codes + at);
    std::memcpy(parts.of_scales + 4 * (at / kNf4ScaleBlock), &of_scales, sizeof of_scales);
  }
  std::fill(parts.scale_codes + scales.size(), to + nf4_bytes(count), uint8_t{0});
}

template <>
void decode_nf4(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_fp32)(from, row, rows, column, columns, to);
}
template <>
void decode_nf4(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(decode_bf16)(from, row, rows, column, columns, to);
}

}  // namespace thinwire::tensor
#endif
