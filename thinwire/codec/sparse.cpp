#include "thinwire/codec/sparse.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "thinwire/base/half.h"
#include "thinwire/codec/sparse_bits.h"

namespace thinwire::codec {
namespace {

// Calls body(first, count) for the entries of each tile.
template <typename Body>
void for_each_tile(const SparseShape& shape, int64_t begin, int64_t end, const SparseTiles& tiles,
                   const Body& body) {
  for (int64_t tile = begin; tile < end; ++tile) {
    body(shape.first_kept + tile * shape.kept,
         int64_t{tiles.counts[static_cast<size_t>(shape.first_tile + tile)]});
  }
}

template <typename Body>
void for_each_value(const SparseShape& shape, SparseTiles& tiles, const Body& body) {
  for_each_tile(shape, 0, shape.tiles, tiles, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) body(tiles.values[static_cast<size_t>(i)]);
  });
}

// Adding and subtracting 1.5 * 2^23 leaves the nearest integer, ties to even.
float round_half_even(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

// How the slots of a segment are encoded, and how many bytes they need.
struct SlotCode {
  int parameter = 0;
  bool partial = false;
  int64_t entries = 0;
  size_t bytes = 0;  // at least
};

// The parameter is floor(log2(mean gap)), which makes gaps * (1 + r) + sum / 2^r smallest.
SlotCode choose_code(const SparseShape& shape, const SparseSegment& segment,
                     const SparseTiles& tiles) {
  SlotCode code;
  int64_t gaps = 0;
  int64_t sum = 0;
  for_each_tile(shape, segment.first_tile, segment.first_tile + segment.tiles, tiles,
                [&](int64_t first, int64_t count) {
                  code.partial = code.partial || count < shape.kept;
                  code.entries += count;
                  if (count < 2) return;
                  gaps += count - 1;
                  sum += tiles.slots[static_cast<size_t>(first + count - 2)] - (count - 2);
                });
  if (gaps > 0 && sum >= gaps) {
    const int width = static_cast<int>(std::bit_width(static_cast<uint64_t>(sum / gaps)));
    code.parameter = std::min(width - 1, kMaxRiceParameter);
  }
  const int64_t bits = gaps * (1 + code.parameter) + (sum >> code.parameter) +
                       segment.tiles * (1 + kMaxCountBits + kMaxSlotBits);
  code.bytes = static_cast<size_t>(bits / 8 + 1) + 8;
  return code;
}

uint8_t* write_slots(const SparseShape& shape, const SparseSegment& segment,
                     const SparseTiles& tiles, const SlotCode& code, uint8_t* out) {
  BitWriter writer(out);
  for_each_tile(shape, segment.first_tile, segment.first_tile + segment.tiles, tiles,
                [&](int64_t first, int64_t count) {
                  if (code.partial) writer.put(count == shape.kept ? 1 : 0, 1);
                  if (count < shape.kept) {
                    writer.put(static_cast<uint64_t>(count), bits_of_count(shape));
                  }
                  if (count == 0) return;
                  const uint16_t* slots = tiles.slots.data() + first;
                  uint32_t next = 0;
                  for (int64_t i = 0; i < count - 1; ++i) {
                    writer.put_rice(slots[i] - next, code.parameter);
                    next = slots[i] + 1u;
                  }
                  writer.put_below(slots[count - 1] - next,
                                   static_cast<uint32_t>(shape.slots) - next);
                });
  return writer.finish();
}

int8_t int8_code(float value, float scale) {
  return scale == 0 ? int8_t{0} : static_cast<int8_t>(value / scale);
}

// Writes the values into a segment that has room for them.
void write_values(const SparseShape& shape, const SparseSegment& segment, ValueFormat format,
                  const SparseTiles& tiles, uint8_t* out) {
  const float scale = tiles.scales[segment.tensor];
  BitWriter bits(out);
  for_each_tile(shape, segment.first_tile, segment.first_tile + segment.tiles, tiles,
                [&](int64_t first, int64_t count) {
                  const float* values = tiles.values.data() + first;
                  const auto size = static_cast<size_t>(count);
                  switch (format) {
                    case ValueFormat::kF32:
                      if (count > 0) std::memcpy(out, values, 4 * size);
                      out += 4 * size;
                      break;
                    case ValueFormat::kBf16:
                      for (size_t i = 0; i < size; ++i, out += 2) {
                        const Bf16 rounded = to_bf16(values[i]);
                        std::memcpy(out, &rounded, 2);
                      }
                      break;
                    case ValueFormat::kInt8:
                      for (size_t i = 0; i < size; ++i) {
                        *out++ = static_cast<uint8_t>(int8_code(values[i], scale));
                      }
                      break;
                    case ValueFormat::kOneBit:
                      for (size_t i = 0; i < size; ++i) {
                        bits.put(std::bit_cast<uint32_t>(values[i]) >> 31, 1);
                      }
                      break;
                    case ValueFormat::kTwoBit:
                      for (size_t i = 0; i < size; ++i) {
                        const uint64_t high = std::abs(values[i]) == scale ? 0 : 2;
                        bits.put(std::bit_cast<uint32_t>(values[i]) >> 31 | high, 2);
                      }
                  }
                });
  if (format == ValueFormat::kOneBit || format == ValueFormat::kTwoBit) bits.finish();
}

// Writes the segment's bytes; returns its entry in the table.
uint32_t encode_segment(const SparseShape& shape, const SparseSegment& segment, ValueFormat format,
                        const SparseTiles& tiles, Bytes& out) {
  const SlotCode code = choose_code(shape, segment, tiles);
  const size_t of_values = value_bytes(format, code.entries);
  out.resize(code.bytes + of_values + 8);
  uint8_t* const values = write_slots(shape, segment, tiles, code, out.data());
  write_values(shape, segment, format, tiles, values);
  out.resize(static_cast<size_t>(values - out.data()) + of_values);
  return static_cast<uint32_t>(out.size()) |
         static_cast<uint32_t>(code.parameter) << kSegmentSizeBits |
         (code.partial ? kPartialTiles : 0);
}

float scale_of(const SparseShape& shape, ValueFormat format, SparseTiles& tiles) {
  double sum = 0;
  float largest = 0;
  int64_t count = 0;
  for_each_value(shape, tiles, [&](float value) {
    sum += std::abs(value);
    largest = std::max(largest, std::abs(value));
    ++count;
  });
  if (format == ValueFormat::kInt8) return round_to_bf16(largest / 127);
  return count == 0 ? 0 : round_to_bf16(static_cast<float>(sum / static_cast<double>(count)));
}

}  // namespace

std::vector<SparseShape> shapes_of(const method::TilePlan& plan) {
  std::vector<SparseShape> shapes;
  for (const method::TensorTiles& part : plan.tensors) {
    shapes.push_back({part.tiles(), part.slots(), part.kept, part.first_tile, part.first_kept});
  }
  return shapes;
}

std::vector<SparseSegment> cut_segments(std::span<const SparseShape> shapes) {
  std::vector<SparseSegment> segments;
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    const int64_t step = segment_tiles(shapes[tensor].kept);
    for (int64_t tile = 0; tile < shapes[tensor].tiles; tile += step) {
      segments.push_back({tensor, tile, std::min(step, shapes[tensor].tiles - tile)});
    }
  }
  return segments;
}

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
  highs.resize(shapes.size());
}

void quantise_two_bits(std::span<const SparseShape> shapes, size_t first, SparseTiles& tiles) {
  double sums[2] = {};
  int64_t counts[2] = {};
  float mean = std::numeric_limits<float>::infinity();
  const auto add = [&](float value) {
    const int group = std::abs(value) > mean;
    sums[group] += std::abs(value);
    ++counts[group];
  };
  const auto mean_of = [&](int group) {
    return counts[group] == 0 ? 0.0f : static_cast<float>(sums[group] / double(counts[group]));
  };
  for (const SparseShape& shape : shapes) for_each_value(shape, tiles, add);
  mean = mean_of(0);
  sums[0] = 0;
  counts[0] = 0;
  for (const SparseShape& shape : shapes) for_each_value(shape, tiles, add);
  const float low = round_to_bf16(mean_of(0));
  const float high = round_to_bf16(mean_of(1));
  for (size_t i = 0; i < shapes.size(); ++i) {
    tiles.scales[first + i] = low;
    tiles.highs[first + i] = high;
    for_each_value(shapes[i], tiles, [&](float& value) {
      value = std::copysign(std::abs(value) > mean ? high : low, value);
    });
  }
}

void quantise(const SparseShape& shape, size_t index, ValueFormat format, SparseTiles& tiles) {
  if (format == ValueFormat::kF32) return;
  if (format == ValueFormat::kBf16) {
    for_each_value(shape, tiles, [](float& value) { value = round_to_bf16(value); });
    return;
  }
  if (format == ValueFormat::kTwoBit) return quantise_two_bits({&shape, 1}, index, tiles);
  const float scale = scale_of(shape, format, tiles);
  tiles.scales[index] = scale;
  if (format == ValueFormat::kOneBit) {
    for_each_value(shape, tiles, [&](float& value) { value = std::copysign(scale, value); });
    return;
  }
  for_each_value(shape, tiles, [&](float& value) {
    const float q = scale == 0 ? 0 : round_half_even(value / scale);
    value = scale * std::clamp(q, -127.0f, 127.0f);
  });
}

void encode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                   const SparseTiles& tiles, ThreadPool& threads, Bytes& out) {
  const std::vector<SparseSegment> segments = cut_segments(shapes);
  std::vector<Bytes> parts(segments.size());
  std::vector<uint32_t> table(segments.size());
  threads.for_each(static_cast<int64_t>(segments.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    table[index] = encode_segment(shapes[segments[index].tensor], segments[index], format, tiles,
                                  parts[index]);
  });
  ByteWriter writer(out);
  writer.put(static_cast<uint8_t>(format));
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    if (scales_of(format) > 0) writer.put(to_bf16(tiles.scales[tensor]));
    if (scales_of(format) > 1) writer.put(to_bf16(tiles.highs[tensor]));
  }
  writer.put_bytes(as_bytes(std::span<const uint32_t>(table)));
  for (const Bytes& part : parts) writer.put_bytes(part);
}

void encode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                   const SparseTiles& tiles, Bytes& out) {
  ThreadPool one(1);
  encode_sparse(shapes, format, tiles, one, out);
}

}  // namespace thinwire::codec
