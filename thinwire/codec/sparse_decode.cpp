#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/half.h"
#include "thinwire/base/simd.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/sparse_bits.h"

namespace thinwire::codec {
namespace {

auto corrupt(std::string_view what) {
  return fail(FailureKind::kCorruptPayload, std::string(what));
}

auto corrupt(const SparseSegment& segment, std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("tensor {}, tiles from {} on: {}",
                                                        segment.tensor, segment.first_tile, what));
}

#define THINWIRE_INLINE inline __attribute__((always_inline))

// Reads the slots of consecutive tiles.
struct Stream {
  BitReader reader;
  int parameter;
  uint16_t* slots;    // where the next ones go
  uint32_t next = 0;  // the lowest slot that is still possible in the tile

  // Reads N slots; returns whether all are below `limit`. They ascend, so the last one decides.
  template <int N>
  THINWIRE_INLINE bool read(uint32_t limit) {
    uint32_t gaps[N];
    if (!reader.get_rices(parameter, gaps)) [[unlikely]] {
      for (uint32_t& gap : gaps) gap = reader.get_rice(parameter, limit);
    }
    for (const uint32_t gap : gaps) {
      next += gap;
      *slots++ = static_cast<uint16_t>(next++);
    }
    return next <= limit;
  }

  // Reads the last slot of a tile; false if there is none or bits are missing.
  THINWIRE_INLINE bool read_last(uint32_t limit) {
    if (next >= limit) return false;
    *slots++ = static_cast<uint16_t>(next + reader.get_below(limit - next));
    next = 0;
    return !reader.past_end();
  }
};

// Reads `count` > 0 slots of each of `tiles` tiles; false if one is out of range.
THINWIRE_CLONES bool read_alone(uint32_t limit, uint32_t count, int64_t tiles, Stream& stream) {
  Stream a = stream;
  bool inside = true;
  for (int64_t tile = 0; tile < tiles && inside; ++tile) {
    uint32_t left = count - 1;
    for (; left >= 4 && inside; left -= 4) inside = a.read<4>(limit);
    for (; left >= 1 && inside; left -= 1) inside = a.read<1>(limit);
    inside = inside && a.read_last(limit);
  }
  stream = a;
  return inside;
}

// The same for two streams: while one waits for its own bits, the other continues.
THINWIRE_CLONES bool read_side_by_side(uint32_t limit, uint32_t count, int64_t tiles, Stream& first,
                                       Stream& second) {
  Stream a = first;
  Stream b = second;
  bool inside = true;
  for (int64_t tile = 0; tile < tiles && inside; ++tile) {
    uint32_t left = count - 1;
    for (; left >= 4 && inside; left -= 4) {
      inside = a.read<4>(limit);
      inside = b.read<4>(limit) && inside;
    }
    for (; left >= 1 && inside; left -= 1) {
      inside = a.read<1>(limit);
      inside = b.read<1>(limit) && inside;
    }
    inside = inside && a.read_last(limit) && b.read_last(limit);
  }
  first = a;
  second = b;
  return inside;
}

#undef THINWIRE_INLINE

bool all_finite(ValueFormat format, std::span<const uint8_t> bytes) {
  if (format == ValueFormat::kOneBit || format == ValueFormat::kTwoBit) return true;
  if (format == ValueFormat::kInt8) return std::ranges::find(bytes, uint8_t{0x80}) == bytes.end();
  // The exponent is at the same place at the top of both formats.
  const size_t width = format == ValueFormat::kF32 ? 4 : 2;
  for (size_t at = width - 2; at < bytes.size(); at += width) {
    uint16_t top = 0;
    std::memcpy(&top, bytes.data() + at, 2);
    if ((top & 0x7f80) == 0x7f80) return false;
  }
  return true;
}

// Whether the last byte's unused bits are zero, as they must be.
bool clean_tail(ValueFormat format, int64_t count, std::span<const uint8_t> bytes) {
  if (format != ValueFormat::kOneBit && format != ValueFormat::kTwoBit) return true;
  const int64_t bits = (format == ValueFormat::kOneBit ? count : 2 * count) % 8;
  return bits == 0 || bytes.back() >> bits == 0;
}

bool valid_scale(ValueFormat format, Bf16 scale) {
  const float largest = format == ValueFormat::kInt8 ? 127.0f : 1.0f;
  return (scale.bits & 0x8000u) == 0 && std::isfinite(largest * to_float(scale));
}

// out[i] = -scale where bit i is set, else scale; count <= 32.
THINWIRE_CLONES void spread_signs(uint32_t bits, float scale, int64_t count, float* out) {
  const auto plus = std::bit_cast<uint32_t>(scale);
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    out[i] = std::bit_cast<float>(plus ^ (bits >> i) << 31);
  }
}

void read_signs(std::span<const uint8_t> bytes, float scale, int64_t first, int64_t count,
                float* out) {
  for (int64_t i = 0; i < count; i += 32) {
    const auto byte = static_cast<size_t>((first + i) / 8);
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + byte, std::min<size_t>(8, bytes.size() - byte));
    spread_signs(static_cast<uint32_t>(word >> ((first + i) % 8)), scale,
                 std::min<int64_t>(32, count - i), out + i);
  }
}

// Bit 0 of each pair is the sign, bit 1 chooses the magnitude.
void read_pairs(std::span<const uint8_t> bytes, float low, float high, int64_t first, int64_t count,
                float* out) {
  const float values[4] = {low, -low, high, -high};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    out[i] = values[bytes[static_cast<size_t>(at / 4)] >> (at % 4 * 2) & 3];
  }
}

}  // namespace

SparseMessage::SparseMessage(std::span<const SparseShape> shapes, ValueFormat format)
    : shapes_(shapes), format_(format), segments_(cut_segments(shapes)), parts_(segments_.size()) {
  const SparseShape last = shapes.empty() ? SparseShape() : shapes.back();
  counts_.resize(static_cast<size_t>(last.first_tile + last.tiles));
  slots_.resize(static_cast<size_t>(last.first_kept + last.tiles * last.kept));
  scales_.resize(shapes.size());
  highs_.resize(shapes.size());
}

Result<void> SparseMessage::open(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  if (reader.get<uint8_t>() != static_cast<uint8_t>(format_)) {
    return corrupt("the values are in a different format");
  }
  for (size_t tensor = 0; tensor < shapes_.size(); ++tensor) {
    const Bf16 scale = scales_of(format_) > 0 ? reader.get<Bf16>() : Bf16();
    const Bf16 high = scales_of(format_) > 1 ? reader.get<Bf16>() : Bf16();
    if (!valid_scale(format_, scale) || !valid_scale(format_, high)) {
      return corrupt("a scale is not a finite number >= 0");
    }
    scales_[tensor] = to_float(scale);
    highs_[tensor] = to_float(high);
  }
  ByteReader table(reader.get_bytes(4 * segments_.size()));
  for (Part& part : parts_) {
    const auto entry = table.get<uint32_t>();
    part.bytes = reader.get_bytes(entry & ((1u << kSegmentSizeBits) - 1));
    part.parameter = static_cast<int>(entry >> kSegmentSizeBits) & kMaxRiceParameter;
    part.partial = (entry & kPartialTiles) != 0;
    part.values = {};
  }
  if (!reader.ok()) return corrupt("it is truncated");
  if (!reader.at_end()) return corrupt("bytes left over after the last tensor");
  return {};
}

Result<void> SparseMessage::decode(size_t begin, size_t end) {
  for (size_t index = begin; index < end;) {
    const bool pair = index + 1 < end && decode_pair(index);
    if (!pair) {
      if (auto done = decode_one(index); !done) return done;
    }
    index += pair ? 2 : 1;
  }
  return {};
}

Result<void> SparseMessage::decode_one(size_t index) {
  const SparseSegment& segment = segments_[index];
  const SparseShape& shape = shapes_[segment.tensor];
  const Part& part = parts_[index];
  const auto kept = static_cast<uint32_t>(shape.kept);
  const auto limit = static_cast<uint32_t>(shape.slots);
  Stream stream = {BitReader(part.bytes), part.parameter, slots_of(segment)};
  if (!part.partial) {
    set_counts(segment);
    if (!read_alone(limit, kept, segment.tiles, stream)) {
      return corrupt(segment, "slots are out of range or truncated");
    }
    return finish(index, stream.reader, segment.tiles * kept);
  }
  int64_t total = 0;
  for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
    uint32_t count = kept;
    if (stream.reader.get(1) == 0) {
      count = stream.reader.get(bits_of_count(shape));
      if (count >= kept) return corrupt(segment, "a tile has more slots than are kept");
    }
    stream.slots = slots_.data() + shape.first_kept + tile * shape.kept;
    if (count > 0 && !read_alone(limit, count, 1, stream)) {
      return corrupt(segment, "slots are out of range or truncated");
    }
    counts_[static_cast<size_t>(shape.first_tile + tile)] = count;
    total += count;
  }
  return finish(index, stream.reader, total);
}

bool SparseMessage::decode_pair(size_t index) {
  const SparseSegment& first = segments_[index];
  const SparseSegment& second = segments_[index + 1];
  const Part& part = parts_[index];
  const Part& other = parts_[index + 1];
  if (first.tensor != second.tensor || first.tiles != second.tiles) return false;
  if (part.partial || other.partial) return false;
  const SparseShape& shape = shapes_[first.tensor];
  Stream a = {BitReader(part.bytes), part.parameter, slots_of(first)};
  Stream b = {BitReader(other.bytes), other.parameter, slots_of(second)};
  if (!read_side_by_side(static_cast<uint32_t>(shape.slots), static_cast<uint32_t>(shape.kept),
                         first.tiles, a, b)) {
    return false;
  }
  set_counts(first);
  set_counts(second);
  const int64_t total = first.tiles * shape.kept;
  return finish(index, a.reader, total) && finish(index + 1, b.reader, total);
}

uint16_t* SparseMessage::slots_of(const SparseSegment& segment) {
  const SparseShape& shape = shapes_[segment.tensor];
  return slots_.data() + shape.first_kept + segment.first_tile * shape.kept;
}

void SparseMessage::set_counts(const SparseSegment& segment) {
  const SparseShape& shape = shapes_[segment.tensor];
  std::fill_n(counts_.begin() + shape.first_tile + segment.first_tile, segment.tiles,
              static_cast<uint32_t>(shape.kept));
}

Result<void> SparseMessage::finish(size_t index, BitReader& reader, int64_t total) {
  const SparseSegment& segment = segments_[index];
  Part& part = parts_[index];
  if (reader.past_end()) return corrupt(segment, "it is truncated");
  if (!reader.clean_tail()) return corrupt(segment, "bits left over after the slots");
  part.values = part.bytes.subspan(reader.bytes());
  if (part.values.size() != value_bytes(format_, total)) {
    return corrupt(segment, "the number of values is not the number of slots");
  }
  if (!clean_tail(format_, total, part.values)) {
    return corrupt(segment, "bits left over after the values");
  }
  if (!all_finite(format_, part.values)) return corrupt(segment, "a value is not a finite number");
  return {};
}

void SparseMessage::read_values(size_t segment, int64_t first, int64_t count, float* out) const {
  if (count == 0) return;
  const std::span<const uint8_t> bytes = parts_[segment].values;
  const float scale = scales_[segments_[segment].tensor];
  switch (format_) {
    case ValueFormat::kF32:
      std::memcpy(out, bytes.data() + 4 * first, 4 * static_cast<size_t>(count));
      return;
    case ValueFormat::kBf16:
      for (int64_t i = 0; i < count; ++i) {
        Bf16 value;
        std::memcpy(&value, bytes.data() + 2 * (first + i), 2);
        out[i] = to_float(value);
      }
      return;
    case ValueFormat::kInt8:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = scale * static_cast<float>(static_cast<int8_t>(bytes[size_t(first + i)]));
      }
      return;
    case ValueFormat::kOneBit:
      return read_signs(bytes, scale, first, count, out);
    case ValueFormat::kTwoBit:
      return read_pairs(bytes, scale, highs_[segments_[segment].tensor], first, count, out);
  }
}

Result<void> decode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                           std::span<const uint8_t> bytes, SparseTiles& tiles) {
  SparseMessage message(shapes, format);
  auto done = message.open(bytes);
  if (!done) return done;
  done = message.decode(0, message.segments().size());
  if (!done) return done;
  for (size_t index = 0; index < message.segments().size(); ++index) {
    const SparseSegment& segment = message.segments()[index];
    const SparseShape& shape = shapes[segment.tensor];
    int64_t first = 0;
    for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
      const int64_t at = shape.first_kept + tile * shape.kept;
      const uint32_t count = message.count(shape.first_tile + tile);
      tiles.counts[static_cast<size_t>(shape.first_tile + tile)] = count;
      std::copy_n(message.slots(at), count, tiles.slots.begin() + at);
      message.read_values(index, first, count, tiles.values.data() + at);
      first += count;
    }
  }
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    tiles.scales[tensor] = message.scale(tensor);
    tiles.highs[tensor] = message.high(tensor);
  }
  return {};
}

}  // namespace thinwire::codec
