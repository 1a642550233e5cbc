#include "thinwire/codec/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "thinwire/base/half.h"
#include "thinwire/base/simd.h"

namespace thinwire::codec {
namespace {

Result<void> check_length(WireType type, size_t bytes, size_t values) {
  if (bytes == wire_bytes(type, values)) return {};
  return fail(FailureKind::kCorruptPayload,
              fmt::format("{} values as {} take {} bytes, got {}", values, wire_name(type),
                          wire_bytes(type, values), bytes));
}

void encode_f32(std::span<const float> values, std::span<uint8_t> out) {
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
}

Result<void> decode_f32(std::span<const uint8_t> in, std::span<float> values) {
  if (auto right = check_length(WireType::kF32, in.size(), values.size()); !right) return right;
  if (!values.empty()) std::memcpy(values.data(), in.data(), in.size());
  return {};
}

THINWIRE_CLONES void encode_bf16(std::span<const float> values, std::span<uint8_t> out) {
  const float* __restrict from = values.data();
  uint8_t* __restrict to = out.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const Bf16 rounded = to_bf16(from[i]);
    std::memcpy(to + 2 * i, &rounded.bits, 2);
  }
}

THINWIRE_CLONES void widen_bf16(const uint8_t* __restrict from, float* __restrict to,
                                size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Bf16 value;
    std::memcpy(&value.bits, from + 2 * i, 2);
    to[i] = to_float(value);
  }
}

Result<void> decode_bf16(std::span<const uint8_t> in, std::span<float> values) {
  if (auto right = check_length(WireType::kBf16, in.size(), values.size()); !right) return right;
  widen_bf16(in.data(), values.data(), values.size());
  return {};
}

template <WireType kType, bool (*kDecode)(std::span<const uint8_t>, std::span<float>)>
Result<void> decode_blocks(std::span<const uint8_t> in, std::span<float> values) {
  if (auto right = check_length(kType, in.size(), values.size()); !right) return right;
  if (kDecode(in, values)) return {};
  return fail(FailureKind::kCorruptPayload,
              fmt::format("not finite, as {} values or their scale", wire_name(kType)));
}

THINWIRE_CLONES void add_words(std::span<const float> values, std::span<float> sum) {
  const float* __restrict from = values.data();
  float* __restrict to = sum.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) {
    to[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(to[i]) + std::bit_cast<uint32_t>(from[i]));
  }
}

constexpr WireCodec kWords = {WireType::kF32, encode_f32, decode_f32, nullptr, add_words};

// Indexed by WireType.
constexpr std::array<WireCodec, kWireNames.size()> kCodecs = {{
    {WireType::kF32, encode_f32, decode_f32},
    {WireType::kBf16, encode_bf16, decode_bf16},
    {WireType::kFp8, encode_fp8, decode_blocks<WireType::kFp8, decode_fp8>},
    {WireType::kFp4, encode_fp4, decode_blocks<WireType::kFp4, decode_fp4>},
    {WireType::kInt2, encode_int2, decode_blocks<WireType::kInt2, decode_int2>},
    {WireType::kInt1, encode_int1, decode_blocks<WireType::kInt1, decode_int1>},
}};

// Indexed by the format of contributions, then of sums.
constexpr auto kSumCodecs = [] {
  std::array<std::array<WireCodec, kCodecs.size()>, kCodecs.size()> all = {};
  for (size_t sent = 0; sent < kCodecs.size(); ++sent) {
    for (size_t sum = 0; sum < kCodecs.size(); ++sum) {
      all[sent][sum] = kCodecs[sent];
      if (sum != sent) all[sent][sum].sum_codec = &kCodecs[sum];
    }
  }
  return all;
}();

}  // namespace

const WireCodec& wire_codec(WireType type) { return kCodecs.at(static_cast<size_t>(type)); }

const WireCodec& wire_codec(SumFormats formats) {
  if (formats.words) return kWords;
  return kSumCodecs.at(static_cast<size_t>(formats.sent)).at(static_cast<size_t>(formats.sum));
}

}  // namespace thinwire::codec
