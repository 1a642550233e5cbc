#include "thinwire/codec/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/bf16.h"
#include "thinwire/codec/bits.h"

namespace thinwire::codec {
namespace {

constexpr int kMaxRiceParameter = 15;
constexpr uint8_t kPartialTiles = 4;  // flag beside the coding in the low two bits

// Calls body(first, count) for the entries of each tile.
template <typename Body>
void for_each_tile(const SparseShape& shape, const SparseTiles& tiles, const Body& body) {
  for (int64_t tile = 0; tile < shape.tiles; ++tile) {
    body(shape.first_kept + tile * shape.kept,
         int64_t{tiles.counts[static_cast<size_t>(shape.first_tile + tile)]});
  }
}

template <typename Body>
void for_each_value(const SparseShape& shape, SparseTiles& tiles, const Body& body) {
  for_each_tile(shape, tiles, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) body(tiles.values[static_cast<size_t>(i)]);
  });
}

// Adding and taking away 1.5 * 2^23 leaves the nearest integer, ties to even.
float round_half_even(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

int bits_of_count(const SparseShape& shape) {
  return std::bit_width(static_cast<unsigned>(shape.kept - 1));
}

struct SlotCode {
  int parameter = 0;
  bool partial = false;
  int64_t bits = 0;  // of all tiles
};

int64_t rice_bits(const SparseShape& shape, const SparseTiles& tiles, int parameter) {
  int64_t bits = 0;
  for_each_tile(shape, tiles, [&](int64_t first, int64_t count) {
    const uint16_t* slots = tiles.slots.data() + first;
    bits += count * (1 + parameter);
    if (count > 0) bits += slots[0] >> parameter;
    for (int64_t i = 1; i < count; ++i) bits += (slots[i] - slots[i - 1] - 1) >> parameter;
  });
  return bits;
}

// The cheapest parameter. The cost is convex in it, so going downhill from a guess finds it.
SlotCode choose_code(const SparseShape& shape, const SparseTiles& tiles) {
  SlotCode code;
  int64_t overhead = 0;
  for_each_tile(shape, tiles, [&](int64_t, int64_t count) {
    code.partial = code.partial || count < shape.kept;
    overhead += count < shape.kept ? 1 + bits_of_count(shape) : 1;
  });
  const int gap_bits = std::bit_width(static_cast<unsigned>(shape.slots / shape.kept));
  code.parameter = std::clamp(gap_bits - 2, 0, kMaxRiceParameter);
  code.bits = rice_bits(shape, tiles, code.parameter);
  for (const int direction : {-1, 1}) {
    while (code.parameter + direction >= 0 && code.parameter + direction <= kMaxRiceParameter) {
      const int64_t bits = rice_bits(shape, tiles, code.parameter + direction);
      if (bits >= code.bits) break;
      code.bits = bits;
      code.parameter += direction;
    }
  }
  if (code.partial) code.bits += overhead;
  return code;
}

void write_slots(const SparseShape& shape, const SparseTiles& tiles, const SlotCode& code,
                 Bytes& out) {
  const size_t at = out.size();
  const auto bytes = static_cast<size_t>((code.bits + 7) / 8);
  out.resize(at + bytes + 8);
  BitWriter writer(out.data() + at);
  for_each_tile(shape, tiles, [&](int64_t first, int64_t count) {
    if (code.partial) writer.put(count == shape.kept ? 1 : 0, 1);
    if (count < shape.kept) writer.put(static_cast<uint64_t>(count), bits_of_count(shape));
    const uint16_t* slots = tiles.slots.data() + first;
    uint32_t next = 0;
    for (int64_t i = 0; i < count; ++i) {
      writer.put_rice(slots[i] - next, code.parameter);
      next = slots[i] + 1u;
    }
  });
  writer.finish();
  out.resize(at + bytes);
}

int8_t int8_code(float value, float scale) {
  return scale == 0 ? int8_t{0} : static_cast<int8_t>(value / scale);
}

void write_values(const SparseShape& shape, size_t index, ValueCoding coding,
                  const SparseTiles& tiles, Bytes& out) {
  ByteWriter writer(out);
  const float scale = tiles.scales[index];
  uint8_t signs = 0;
  int used = 0;
  for_each_tile(shape, tiles, [&](int64_t first, int64_t count) {
    const std::span<const float> values(tiles.values.data() + first, static_cast<size_t>(count));
    switch (coding) {
      case ValueCoding::kF32:
        writer.put_bytes(as_bytes(values));
        break;
      case ValueCoding::kBf16:
        for (const float value : values) writer.put(to_bf16(value).bits);
        break;
      case ValueCoding::kInt8:
        for (const float value : values) writer.put(int8_code(value, scale));
        break;
      case ValueCoding::kOneBit:
        for (const float value : values) {
          signs = static_cast<uint8_t>(signs | (std::signbit(value) ? 1u : 0u) << used);
          if (++used < 8) continue;
          writer.put(signs);
          signs = 0;
          used = 0;
        }
    }
  });
  if (used > 0) writer.put(signs);
}

size_t value_bytes(ValueCoding coding, int64_t count) {
  const auto values = static_cast<size_t>(count);
  switch (coding) {
    case ValueCoding::kF32:
      return 4 * values;
    case ValueCoding::kBf16:
      return 2 * values;
    case ValueCoding::kInt8:
      return values;
    case ValueCoding::kOneBit:
      return (values + 7) / 8;
  }
  return 0;
}

auto corrupt(size_t tensor, std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("section of tensor {}: {}", tensor, what));
}

// The entries of one tile; false when a slot is out of range or the bits end.
bool read_tile(const SparseShape& shape, const SlotCode& code, BitReader& reader, uint32_t& count,
               uint16_t* slots) {
  int sent = shape.kept;
  if (code.partial && reader.get(1) == 0) {
    sent = static_cast<int>(reader.get(bits_of_count(shape)));
    if (sent >= shape.kept) return false;
  }
  const auto limit = static_cast<uint32_t>(shape.slots);
  uint32_t next = 0;
  for (int i = 0; i < sent; ++i) {
    const uint32_t slot = next + reader.get_rice(code.parameter, limit);
    if (slot >= limit) return false;
    slots[i] = static_cast<uint16_t>(slot);
    next = slot + 1;
  }
  count = static_cast<uint32_t>(sent);
  return !reader.past_end();
}

// Reads one coded value a call.
class ValueReader {
 public:
  ValueReader(ValueCoding coding, float scale, std::span<const uint8_t> in)
      : coding_(coding), scale_(scale), in_(in) {}

  float next() {
    const size_t i = at_++;
    switch (coding_) {
      case ValueCoding::kF32: {
        float value = 0;
        std::memcpy(&value, in_.data() + 4 * i, 4);
        return value;
      }
      case ValueCoding::kBf16: {
        Bf16 value;
        std::memcpy(&value, in_.data() + 2 * i, 2);
        return to_float(value);
      }
      case ValueCoding::kInt8: {
        const auto q = static_cast<int8_t>(in_[i]);
        return q == -128 ? NAN : scale_ * static_cast<float>(q);
      }
      case ValueCoding::kOneBit:
        return (in_[i / 8] >> (i % 8) & 1) != 0 ? -scale_ : scale_;
    }
    return NAN;
  }

 private:
  ValueCoding coding_;
  float scale_;
  std::span<const uint8_t> in_;
  size_t at_ = 0;
};

bool read_values(const SparseShape& shape, ValueReader reader, SparseTiles& tiles) {
  bool finite = true;
  for_each_value(shape, tiles, [&](float& value) {
    value = reader.next();
    finite = finite && std::isfinite(value);
  });
  return finite;
}

// Bits of the last byte that no value uses must be zero.
bool clean_tail(ValueCoding coding, int64_t count, std::span<const uint8_t> bytes) {
  return coding != ValueCoding::kOneBit || count % 8 == 0 || bytes.back() >> (count % 8) == 0;
}

bool valid_scale(ValueCoding coding, Bf16 scale) {
  if (coding == ValueCoding::kF32 || coding == ValueCoding::kBf16) return scale.bits == 0;
  return (scale.bits & 0x8000u) == 0 && std::isfinite(to_float(scale));
}

Result<void> decode_section(const SparseShape& shape, size_t index, ValueCoding coding,
                            ByteReader& reader, SparseTiles& tiles) {
  SlotCode code;
  code.parameter = reader.get<uint8_t>();
  const auto flags = reader.get<uint8_t>();
  const auto scale = reader.get<Bf16>();
  const auto slot_bytes = reader.get_bytes(reader.get<uint32_t>());
  if (!reader.ok()) return corrupt(index, "its slots are cut off");
  if (code.parameter > kMaxRiceParameter) return corrupt(index, "no such Rice parameter");
  if ((flags & ~kPartialTiles) != static_cast<uint8_t>(coding)) {
    return corrupt(index, "the values are in another coding");
  }
  if (!valid_scale(coding, scale)) return corrupt(index, "the scale is not a finite number >= 0");
  code.partial = (flags & kPartialTiles) != 0;
  tiles.scales[index] = to_float(scale);

  BitReader slots(slot_bytes);
  int64_t total = 0;
  for (int64_t tile = 0; tile < shape.tiles; ++tile) {
    uint32_t& count = tiles.counts[static_cast<size_t>(shape.first_tile + tile)];
    uint16_t* first = tiles.slots.data() + shape.first_kept + tile * shape.kept;
    if (!read_tile(shape, code, slots, count, first)) {
      return corrupt(index, fmt::format("the slots of tile {} are out of range", tile));
    }
    total += count;
  }
  if (!slots.at_end()) return corrupt(index, "bits left over after the slots");

  const auto values = reader.get_bytes(value_bytes(coding, total));
  if (!reader.ok()) return corrupt(index, "its values are cut off");
  if (!clean_tail(coding, total, values)) return corrupt(index, "bits left over after the values");
  if (!read_values(shape, ValueReader(coding, to_float(scale), values), tiles)) {
    return corrupt(index, "a value is not a finite number");
  }
  return {};
}

float scale_of(const SparseShape& shape, ValueCoding coding, SparseTiles& tiles) {
  double sum = 0;
  float largest = 0;
  int64_t count = 0;
  for_each_value(shape, tiles, [&](float value) {
    sum += std::abs(value);
    largest = std::max(largest, std::abs(value));
    ++count;
  });
  if (coding == ValueCoding::kInt8) return round_to_bf16(largest / 127);
  return count == 0 ? 0 : round_to_bf16(static_cast<float>(sum / static_cast<double>(count)));
}

}  // namespace

SparseTiles::SparseTiles(std::span<const SparseShape> shapes) {
  size_t tile_count = 0;
  size_t kept_count = 0;
  for (const SparseShape& shape : shapes) {
    tile_count += static_cast<size_t>(shape.tiles);
    kept_count += static_cast<size_t>(shape.tiles * shape.kept);
  }
  counts.resize(tile_count);
  slots.resize(kept_count);
  values.resize(kept_count);
  scales.resize(shapes.size());
}

void quantise(const SparseShape& shape, size_t index, ValueCoding coding, SparseTiles& tiles) {
  if (coding == ValueCoding::kF32) return;
  if (coding == ValueCoding::kBf16) {
    for_each_value(shape, tiles, [](float& value) { value = round_to_bf16(value); });
    return;
  }
  const float scale = scale_of(shape, coding, tiles);
  tiles.scales[index] = scale;
  if (coding == ValueCoding::kOneBit) {
    for_each_value(shape, tiles, [&](float& value) { value = std::copysign(scale, value); });
    return;
  }
  for_each_value(shape, tiles, [&](float& value) {
    const float q = scale == 0 ? 0 : round_half_even(value / scale);
    value = scale * std::clamp(q, -127.0f, 127.0f);
  });
}

void encode_sparse(std::span<const SparseShape> shapes, ValueCoding coding,
                   const SparseTiles& tiles, Bytes& out) {
  for (size_t index = 0; index < shapes.size(); ++index) {
    const SlotCode code = choose_code(shapes[index], tiles);
    ByteWriter writer(out);
    writer.put(static_cast<uint8_t>(code.parameter));
    writer.put(
        static_cast<uint8_t>(static_cast<uint8_t>(coding) | (code.partial ? kPartialTiles : 0)));
    writer.put(to_bf16(tiles.scales[index]));
    writer.put(static_cast<uint32_t>((code.bits + 7) / 8));
    write_slots(shapes[index], tiles, code, out);
    write_values(shapes[index], index, coding, tiles, out);
  }
}

Result<void> decode_sparse(std::span<const SparseShape> shapes, ValueCoding coding,
                           std::span<const uint8_t> bytes, SparseTiles& tiles) {
  ByteReader reader(bytes);
  for (size_t index = 0; index < shapes.size(); ++index) {
    auto done = decode_section(shapes[index], index, coding, reader, tiles);
    if (!done) return done;
  }
  if (!reader.at_end()) {
    return fail(FailureKind::kCorruptPayload, "bytes left over after the last tensor");
  }
  return {};
}

}  // namespace thinwire::codec
