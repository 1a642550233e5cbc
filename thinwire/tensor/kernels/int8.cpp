// Weights in linear codes of 8 bits (kInt8, encoded.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "thinwire/tensor/kernels/encoded.h"
#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/kernels/int8.cpp"
#include <hwy/foreach_target.h>

#include "thinwire/tensor/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using D8 = hn::Rebind<int8_t, D>;

// The codes of a block, and its scale.
HWY_INLINE float encode_one(const float* values, int8_t* codes) {
  const float largest = std::bit_cast<float>(largest_magnitude(values, kInt8Block));
  const float scale =
      std::isfinite(largest) ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  if (!(scale > 0)) {
    std::fill_n(codes, kInt8Block, int8_t{0});
    return scale;
  }
  const D d;
  for (size_t i = 0; i < kInt8Block; i += hn::Lanes(d)) {
    // Where the scale is not a normal number, the quotient may be more than 127.
    const auto quotient = hn::Div(hn::LoadU(d, values + i), hn::Set(d, scale));
    const auto bounded = hn::Min(hn::Max(quotient, hn::Set(d, -127)), hn::Set(d, 127));
    hn::StoreU(hn::DemoteTo(D8(), hn::NearestInt(bounded)), D8(), codes + i);
  }
  return scale;
}

void encode_all(const float* values, int64_t count, int8_t* codes, uint8_t* scales) {
  for (int64_t at = 0; at < count; at += kInt8Block, codes += kInt8Block, scales += sizeof(float)) {
    float padded[kInt8Block] = {};
    const bool whole = count - at >= kInt8Block;
    if (!whole) std::copy_n(values + at, count - at, padded);
    const float scale = encode_one(whole ? values + at : padded, codes);
    std::memcpy(scales, &scale, sizeof scale);
  }
}

template <typename T>
HWY_INLINE void decode_one(const int8_t* codes, float scale, T* to) {
  const D d;
  for (size_t i = 0; i < kInt8Block; i += hn::Lanes(d)) {
    const auto code = hn::ConvertTo(d, hn::PromoteTo(DI(), hn::LoadU(D8(), codes + i)));
    Whole().store(hn::Mul(code, hn::Set(d, scale)), d, to + i);
  }
}

template <typename T>
void decode_rows(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, T* to) {
  const auto* const codes = reinterpret_cast<const int8_t*>(from.encoded);
  const uint8_t* const scales = from.encoded + kInt8Block * int8_blocks(from.rows * from.columns);
  for (int64_t r = row; r < row + rows; ++r) {
    int64_t at = r * from.columns + column;
    const int64_t end = at + columns;
    while (at < end) {
      const int64_t block = at / kInt8Block, skipped = at % kInt8Block;
      const int64_t count = std::min(kInt8Block - skipped, end - at);
      float scale;
      std::memcpy(&scale, scales + 4 * block, sizeof scale);
      if (count == kInt8Block) {
        decode_one(codes + at, scale, to);
      } else {
        T whole[kInt8Block];
        decode_one(codes + kInt8Block * block, scale, whole);
        std::copy_n(whole + skipped, count, to);
      }
      at += count;
      to += count;
    }
  }
}

void decode_to_fp32(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                    int64_t columns, float* to) {
  decode_rows(from, row, rows, column, columns, to);
}
void decode_to_bf16(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                    int64_t columns, Bf16* to) {
  decode_rows(from, row, rows, column, columns, to);
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(encode_all);
HWY_EXPORT(decode_to_fp32);
HWY_EXPORT(decode_to_bf16);

void encode_int8(std::span<const float> values, uint8_t* to) {
  const auto count = static_cast<int64_t>(values.size());
  uint8_t* const scales = to + kInt8Block * int8_blocks(count);
  HWY_DYNAMIC_DISPATCH(encode_all)
  (values.data(), count, reinterpret_cast<int8_t*>(to), scales);
  std::fill(scales + 4 * int8_blocks(count), to + int8_bytes(count), uint8_t{0});
}

template <>
void decode_int8(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_to_fp32)(from, row, rows, column, columns, to);
}
template <>
void decode_int8(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(decode_to_bf16)(from, row, rows, column, columns, to);
}

}  // namespace thinwire::tensor
#endif
