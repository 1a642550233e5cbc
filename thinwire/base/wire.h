// Number formats in which sums are sent, and the interface of their codecs. The code is in
// codec/wire.h; transports are given a codec, and the planner needs only its sizes.
//
// Values are encoded in blocks counted from the start of a buffer; the last one may be shorter. A
// buffer cut at multiples of the block and encoded piece by piece gives the same bytes as a whole.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"

namespace thinwire {

enum class WireType : uint8_t { kF32, kBf16, kFp8, kFp4, kInt2, kInt1 };

// Indexed by WireType, as recipes spell them.
inline constexpr std::array<std::string_view, 6> kWireNames = {"fp32", "bf16", "fp8",
                                                               "fp4",  "int2", "int1"};

constexpr std::span<const std::string_view> names_of(WireType) { return kWireNames; }

constexpr std::string_view wire_name(WireType type) { return name_of(type); }

// Number of values that share a scale; 1 where there are no scales.
constexpr size_t wire_block(WireType type) {
  return type == WireType::kF32 || type == WireType::kBf16 ? 1 : 256;
}

// Whether sums of such values are worth encoding in the same format. One bit does not suffice: it
// holds a sign, and a sum has more to say. Contributions are gathered then, and everyone forms the
// sum.
constexpr bool holds_sums(WireType type) { return type != WireType::kInt1; }

// For the formats with scales.
constexpr uint64_t values_in_a_byte(WireType type) {
  switch (type) {
    case WireType::kInt1:
      return 8;
    case WireType::kInt2:
      return 4;
    case WireType::kFp4:
      return 2;
    default:
      return 1;
  }
}

// Bytes of `count` encoded values: 2 for the scale of each block, then 8, 4, 2 or 1 bits per value,
// rounded up to whole bytes per block.
constexpr uint64_t wire_bytes(WireType type, uint64_t count) {
  if (type == WireType::kF32) return 4 * count;
  if (type == WireType::kBf16) return 2 * count;
  const uint64_t scales = (count + wire_block(type) - 1) / wire_block(type) * 2;
  const uint64_t together = values_in_a_byte(type);
  return scales + (count + together - 1) / together;
}

// The inverse, for counts of whole lines of 16 values, as arenas have them.
constexpr uint64_t wire_values(WireType type, uint64_t bytes) {
  if (type == WireType::kF32) return bytes / 4;
  if (type == WireType::kBf16) return bytes / 2;
  const uint64_t block = wire_bytes(type, wire_block(type));
  const uint64_t rest = bytes % block;
  return bytes / block * wire_block(type) + (rest > 2 ? (rest - 2) * values_in_a_byte(type) : 0);
}

// The values [begin, end) of `count` that a member sums for everybody: whole blocks, except at the
// end of the buffer.
struct WireChunk {
  size_t begin = 0;
  size_t end = 0;
};

constexpr WireChunk wire_chunk(WireType type, size_t count, int members, int member) {
  const size_t block = wire_block(type);
  const size_t blocks = (count + block - 1) / block;
  const auto border = [&](int of) {
    const size_t whole = blocks * static_cast<size_t>(of) / static_cast<size_t>(members);
    return std::min(whole * block, count);
  };
  return {border(member), border(member + 1)};
}

// The formats of contributions and of their sum. A sum has as many bits a value or more, so blocks
// of contributions are whole blocks of the sum, too.
struct SumFormats {
  WireType sent = WireType::kF32;
  WireType sum = WireType::kF32;
  bool words = false;  // both are words of 32 bits as fp32's bits, added modulo 2^32
  bool operator==(const SumFormats&) const = default;
};

struct AllReduceBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// Bytes that a member sends and receives in an all_reduce of `count` values: contributions to the
// owners' chunks, and the chunks' sums to everybody. With one format both average
// 2 (members - 1) / members of the buffer's bytes.
constexpr AllReduceBytes all_reduce_bytes(SumFormats formats, size_t count, int members,
                                          int member) {
  const WireChunk own = wire_chunk(formats.sent, count, members, member);
  const size_t values = own.end - own.begin;
  const uint64_t part = wire_bytes(formats.sent, values);
  const uint64_t chunk = wire_bytes(formats.sum, values);
  const auto others = static_cast<uint64_t>(members) - 1;
  return {wire_bytes(formats.sent, count) - part + chunk * others,
          part * others + wire_bytes(formats.sum, count) - chunk};
}

struct WireCodec {
  WireType type;
  // `out` has wire_bytes(type, values.size()) bytes. Values that a format cannot represent (not
  // finite, in blocks with a scale) give bytes that decode refuses.
  void (*encode)(std::span<const float> values, std::span<uint8_t> out);
  // Total function: any bytes give values or kCorruptPayload.
  Result<void> (*decode)(std::span<const uint8_t> in, std::span<float> values);
  const WireCodec* sum_codec = nullptr;  // encodes sums of such values; null: this one
  // What is summed are no numbers of fp32, and so not scaled: adds `values` to `sum`. Null: they
  // are, and are added as such.
  void (*add)(std::span<const float> values, std::span<float> sum) = nullptr;

  const WireCodec& of_sum() const { return sum_codec == nullptr ? *this : *sum_codec; }
  SumFormats formats() const { return {type, of_sum().type, add != nullptr}; }
};

}  // namespace thinwire
