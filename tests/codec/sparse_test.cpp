#include "thinwire/codec/sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/codec/random_tiles.h"
#include "thinwire/base/half.h"
#include "thinwire/base/rng.h"
#include "thinwire/codec/sparse_bits.h"

namespace thinwire::codec {
namespace {

const std::vector<ValueFormat> kFormats = {ValueFormat::kF32, ValueFormat::kBf16,
                                           ValueFormat::kInt8, ValueFormat::kOneBit,
                                           ValueFormat::kTwoBit};

Bytes encoded(const std::vector<SparseShape>& shapes, ValueFormat format, SparseTiles& tiles) {
  for (size_t i = 0; i < shapes.size(); ++i) quantise(shapes[i], i, format, tiles);
  Bytes bytes;
  encode_sparse(shapes, format, tiles, bytes);
  return bytes;
}

// Compares what a receiver may access: the entries announced by the counts.
void expect_same(const std::vector<SparseShape>& shapes, const SparseTiles& a,
                 const SparseTiles& b) {
  ASSERT_EQ(a.counts, b.counts);
  ASSERT_EQ(a.scales, b.scales);
  ASSERT_EQ(a.highs, b.highs);
  for (const SparseShape& shape : shapes) {
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      const size_t count = a.counts[static_cast<size_t>(shape.first_tile + tile)];
      for (size_t i = first; i < first + count; ++i) {
        ASSERT_EQ(a.slots[i], b.slots[i]);
        ASSERT_EQ(a.values[i], b.values[i]);
      }
    }
  }
}

// Leaves the Rice parameter (low bits only, so that slots stay in range) and the flag as they are.
void set_segment_bytes(Bytes& bytes, size_t at, size_t size) {
  bytes[at] = static_cast<uint8_t>(size);
  bytes[at + 1] = bytes[at + 2] = 0;
  bytes[at + 3] &= 0x98;
}

class Sparse : public testing::TestWithParam<ValueFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Sparse, testing::ValuesIn(kFormats));

TEST_P(Sparse, ReceiverGetsWhatTheSenderKeeps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto shapes = random_shapes(seed);
    SparseTiles sent = random_tiles(shapes, seed, seed % 3 == 0 ? 0.7 : 1.0);
    const Bytes bytes = encoded(shapes, GetParam(), sent);
    SparseTiles received(shapes);
    const auto done = decode_sparse(shapes, GetParam(), bytes, received);
    ASSERT_TRUE(done) << seed << ": " << done.error().message;
    expect_same(shapes, sent, received);
  }
}

TEST_P(Sparse, EveryTruncationIsRefused) {
  const auto shapes = shapes_of({{3, 64, 5}, {1, 7, 7}});
  SparseTiles sent = random_tiles(shapes, 4, 0.8);
  const Bytes bytes = encoded(shapes, GetParam(), sent);
  SparseTiles received(shapes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_sparse(shapes, GetParam(), std::span(bytes).first(size), received));
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(decode_sparse(shapes, GetParam(), longer, received));
}

TEST_P(Sparse, EveryFlippedBitIsRefusedOrGivesAValidMessage) {
  const auto shapes = shapes_of({{3, 64, 5}, {1, 7, 7}, {2, 4096, 2}});
  SparseTiles sent = random_tiles(shapes, 5, 0.9);
  Bytes bytes = encoded(shapes, GetParam(), sent);
  SparseTiles received(shapes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    if (decode_sparse(shapes, GetParam(), bytes, received)) expect_valid(shapes, received);
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

TEST_P(Sparse, RandomBytesNeverDoHarm) {
  const auto shapes = shapes_of({{4, 64, 3}, {2, 5, 1}});
  SparseTiles received(shapes);
  Rng rng(1, 2);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(rng.below(60));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.bits());
    // A plausible start, so that the rest is read: the format, scales below 2, and two segments, of
    // which the first ends within the following bytes.
    const auto scaled = static_cast<size_t>(scales_of(GetParam()));
    const size_t table = 1 + 4 * scaled;
    if (bytes.size() >= table + 8) {
      bytes[0] = static_cast<uint8_t>(GetParam());
      for (size_t i = 0; i < 2 * scaled; ++i) bytes[2 + 2 * i] = 0x3f;
      const size_t rest = bytes.size() - table - 8;
      const size_t first = rng.below(rest + 1);
      set_segment_bytes(bytes, table, first);
      set_segment_bytes(bytes, table + 4, rest - first);
    }
    if (decode_sparse(shapes, GetParam(), bytes, received)) expect_valid(shapes, received);
  }
}

// A Llama of 51.7 M parameters (32000 tokens, 6 blocks of 512, MLP 1376 wide) in tiles of 64 x 64
// that keep k slots, smaller ones their share.
std::vector<SparseShape> realistic_shapes(int k) {
  const ShapeOf vector = {8, 64, 1};
  const ShapeOf table = {500 * 8, 4096, k};
  std::vector<ShapeOf> tensors = {table, vector, table};
  for (int layer = 0; layer < 6; ++layer) {
    tensors.insert(tensors.end(), 2, vector);
    tensors.insert(tensors.end(), 4, {64, 4096, k});
    tensors.insert(tensors.end(), 3, {8 * 32, 64 * 43, std::max((k * 43 + 32) / 64, 1)});
  }
  return shapes_of(tensors);
}

double entropy_bytes(const std::vector<SparseShape>& shapes, int value_bits) {
  double bits = 0;
  for (const SparseShape& shape : shapes) {
    double tile = shape.kept * value_bits;
    for (int i = 0; i < shape.kept; ++i) {
      tile += std::log2(double(shape.slots - i) / (shape.kept - i));
    }
    bits += static_cast<double>(shape.tiles) * tile;
  }
  return bits / 8;
}

TEST(SparseSize, IsWithinThreePercentOfTheEntropyBound) {
  for (const int k : {1, 2, 3, 4, 6, 8, 16, 32, 64}) {
    const auto shapes = realistic_shapes(k);
    SparseTiles sent = random_tiles(shapes, 6, 1.0);
    const Bytes bytes = encoded(shapes, ValueFormat::kOneBit, sent);
    EXPECT_LT(static_cast<double>(bytes.size()), 1.03 * entropy_bytes(shapes, 1)) << k;
    EXPECT_GT(static_cast<double>(bytes.size()), 0.99 * entropy_bytes(shapes, 1)) << k;
  }
}

TEST(SparseThreads, BytesDoNotDependOnHowManyCode) {
  const auto shapes = shapes_of({{700, 4096, 32}, {30, 64, 1}, {2, 65536, 5000}});
  for (const ValueFormat format : kFormats) {
    SparseTiles sent = random_tiles(shapes, 7, 0.9);
    const Bytes bytes = encoded(shapes, format, sent);
    for (const int count : {2, 3, 5}) {
      ThreadPool threads(count);
      Bytes same;
      encode_sparse(shapes, format, sent, threads, same);
      EXPECT_EQ(same, bytes) << count;
    }
  }
}

// Slots of all tiles, or nothing if they were refused, when segments are decoded in steps of a
// given size.
std::vector<uint16_t> decoded(const std::vector<SparseShape>& shapes, const Bytes& bytes,
                              size_t step) {
  SparseMessage message(shapes, ValueFormat::kOneBit);
  const size_t segments = message.segments().size();
  bool done = message.open(bytes).has_value();
  for (size_t i = 0; done && i < segments; i += step) {
    done = message.decode(i, std::min(i + step, segments)).has_value();
  }
  if (!done) return {};
  const SparseShape& last = shapes.back();
  const uint16_t* slots = message.slots(0);
  return {slots, slots + last.first_kept + last.tiles * last.kept};
}

TEST(SparseSideBySide, SegmentsGiveTheSameSlotsAsOneByOne) {
  // Rice parameters from 0 to 12, segments that have a partner and some that have none.
  const auto shapes =
      shapes_of({{700, 4096, 32}, {20, 300, 290}, {5000, 60000, 4}, {70, 4096, 64}});
  SparseTiles sent = random_tiles(shapes, 8, 1.0);
  Bytes bytes = encoded(shapes, ValueFormat::kOneBit, sent);
  const auto slots = decoded(shapes, bytes, 1);
  EXPECT_EQ(slots, sent.slots);
  for (const size_t step : {2, 3, 1000}) EXPECT_EQ(decoded(shapes, bytes, step), slots) << step;
  Rng rng(4, 4);
  int accepted = 0;
  for (int round = 0; round < 60; ++round) {
    const uint64_t bit = rng.below(8 * bytes.size());
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    const auto expected = decoded(shapes, bytes, 1);
    accepted += expected.empty() ? 0 : 1;
    EXPECT_EQ(decoded(shapes, bytes, 1000), expected) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
  EXPECT_GT(accepted, 0);  // signs, and low bits of a slot
}

// One tile of 8 slots of which 2 are sent as fp32: format, table, a byte of slots, 8 of values.
Bytes one_tile(uint32_t parameter, bool partial, uint8_t slots, size_t values) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(uint8_t{0});
  writer.put(static_cast<uint32_t>(1 + 4 * values) | parameter << 27 | uint32_t{partial} << 31);
  writer.put(slots);
  for (size_t i = 0; i < values; ++i) writer.put(1.0f);
  return bytes;
}

bool accepted(const Bytes& bytes, SparseTiles& tiles) {
  return decode_sparse(shapes_of({{1, 8, 2}}), ValueFormat::kF32, bytes, tiles).has_value();
}

TEST(SparseMalformed, EachIsRefused) {
  SparseTiles tiles(shapes_of({{1, 8, 2}}));
  // Parameter 1, gap 2: 0 1 0; then 3 of the 5 slots left, 2 bits and one more: 1 1 0.
  ASSERT_TRUE(accepted(one_tile(1, false, 0b011010, 2), tiles));
  EXPECT_EQ(tiles.counts[0], 2u);
  EXPECT_THAT(tiles.slots, testing::ElementsAre(2, 6));
  EXPECT_FALSE(accepted(one_tile(1, false, 0b1011010, 2), tiles)) << "bits behind the slots";
  EXPECT_FALSE(accepted(one_tile(1, false, 0b011010, 1), tiles)) << "a value missing";
  EXPECT_FALSE(accepted(one_tile(1, false, 0b011010, 3), tiles)) << "a value too many";
  EXPECT_FALSE(accepted(one_tile(1, false, 0b00000000, 2), tiles)) << "a gap without an end";
  EXPECT_FALSE(accepted(one_tile(1, false, 0b00110000, 2), tiles)) << "a gap of 9";
  EXPECT_FALSE(accepted(one_tile(1, false, 0b00011000, 2), tiles)) << "the gap takes the last slot";
  EXPECT_FALSE(accepted(one_tile(15, false, 0b00000001, 2), tiles)) << "a truncated gap";
  // Partial tiles: a 0 bit and a count in one bit, which cannot represent 2.
  ASSERT_TRUE(accepted(one_tile(0, true, 0b00, 0), tiles));
  EXPECT_EQ(tiles.counts[0], 0u);
  ASSERT_TRUE(accepted(one_tile(0, true, 0b11110, 1), tiles));
  EXPECT_EQ(tiles.counts[0], 1u);
  EXPECT_EQ(tiles.slots[0], 7u);
  Bytes infinite = one_tile(1, false, 0b011010, 2);
  infinite[8] = 0x80;
  infinite[9] = 0x7f;
  EXPECT_FALSE(accepted(infinite, tiles)) << "a value that is infinite";
}

TEST(SparseMalformed, CountAboveWhatIsKeptIsRefused) {
  const auto shapes = shapes_of({{1, 8, 3}});
  SparseTiles tiles(shapes);
  for (const uint8_t slots : {uint8_t{0b110}, uint8_t{0b1110}}) {
    Bytes bytes = one_tile(0, true, slots, 0);
    EXPECT_FALSE(decode_sparse(shapes, ValueFormat::kF32, bytes, tiles));
  }
}

TEST(SparseQuantise, OneBitSendsTheMeanWithTheSign) {
  const auto shapes = shapes_of({{1, 8, 3}});
  SparseTiles tiles(shapes);
  tiles.counts = {3};
  tiles.values = {1.0f, -2.0f, 6.0f};
  quantise(shapes[0], 0, ValueFormat::kOneBit, tiles);
  EXPECT_EQ(tiles.scales[0], 3.0f);
  EXPECT_THAT(tiles.values, testing::ElementsAre(3.0f, -3.0f, 3.0f));
}

TEST(SparseQuantise, Int8RoundsHalfToEvenAndReachesTheLargest) {
  const auto shapes = shapes_of({{1, 8, 4}});
  SparseTiles tiles(shapes);
  tiles.counts = {4};
  tiles.values = {127.0f, -0.5f, 1.5f, -126.6f};
  quantise(shapes[0], 0, ValueFormat::kInt8, tiles);
  EXPECT_EQ(tiles.scales[0], 1.0f);
  EXPECT_THAT(tiles.values, testing::ElementsAre(127.0f, 0.0f, 2.0f, -127.0f));
}

TEST(SparseQuantise, TinyAndAbsentValuesGiveFiniteMessages) {
  const auto shapes = shapes_of({{2, 8, 2}});
  for (const ValueFormat format : kFormats) {
    SparseTiles tiles(shapes);
    tiles.counts = {2, 0};
    tiles.slots = {1, 5, 0, 0};
    tiles.values = {1e-45f, -1e-42f, 0, 0};
    const Bytes bytes = encoded(shapes, format, tiles);
    SparseTiles received(shapes);
    ASSERT_TRUE(decode_sparse(shapes, format, bytes, received));
    expect_valid(shapes, received);
  }
}

TEST(SparseQuantise, TwoBitsAreTheMeansBelowAndAboveTheMean) {
  const auto shapes = shapes_of({{1, 8, 4}, {1, 4, 2}});
  SparseTiles tiles(shapes);
  tiles.counts = {4, 2};
  tiles.values = {1, -2, 8, -1, 2, 10};  // mean 4
  quantise_two_bits(shapes, 0, tiles);
  EXPECT_THAT(tiles.values, testing::ElementsAre(1.5, -1.5, 9, -1.5, 1.5, 9));
  EXPECT_THAT(tiles.scales, testing::ElementsAre(1.5, 1.5));
  EXPECT_THAT(tiles.highs, testing::ElementsAre(9, 9));
}

}  // namespace
}  // namespace thinwire::codec
