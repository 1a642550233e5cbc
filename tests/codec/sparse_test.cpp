#include "thinwire/codec/sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/codec/random_tiles.h"
#include "thinwire/base/bf16.h"
#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

const std::vector<ValueCoding> kCodings = {ValueCoding::kF32, ValueCoding::kBf16,
                                           ValueCoding::kInt8, ValueCoding::kOneBit};

Bytes encoded(const std::vector<SparseShape>& shapes, ValueCoding coding, SparseTiles& tiles) {
  for (size_t i = 0; i < shapes.size(); ++i) quantise(shapes[i], i, coding, tiles);
  Bytes bytes;
  encode_sparse(shapes, coding, tiles, bytes);
  return bytes;
}

// What a receiver may look at: the entries that counts announce.
void expect_same(const std::vector<SparseShape>& shapes, const SparseTiles& a,
                 const SparseTiles& b) {
  ASSERT_EQ(a.counts, b.counts);
  ASSERT_EQ(a.scales, b.scales);
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

class Sparse : public testing::TestWithParam<ValueCoding> {};
INSTANTIATE_TEST_SUITE_P(Codings, Sparse, testing::ValuesIn(kCodings));

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
    // A plausible start, so that the rest is looked at.
    if (bytes.size() > 8) {
      bytes[0] %= 16;
      bytes[1] = static_cast<uint8_t>(static_cast<uint8_t>(GetParam()) | (bytes[1] & 4));
      bytes[4] %= 16;
      bytes[5] = bytes[6] = bytes[7] = 0;
    }
    if (decode_sparse(shapes, GetParam(), bytes, received)) expect_valid(shapes, received);
  }
}

TEST(SparseSize, IsWithinThreePercentOfTheEntropyBound) {
  // 32 of 4096 slots at 1 bit a value: 298.2 bits a tile.
  const auto shapes = shapes_of({{4000, 4096, 32}});
  SparseTiles sent = random_tiles(shapes, 6, 1.0);
  const Bytes bytes = encoded(shapes, ValueCoding::kOneBit, sent);
  double bound = 32;
  for (int i = 0; i < 32; ++i) bound += std::log2(double(4096 - i) / (32 - i));
  EXPECT_LT(static_cast<double>(bytes.size()) * 8, 1.03 * 4000 * bound);
}

TEST(SparseQuantise, OneBitSendsTheMeanWithTheSign) {
  const auto shapes = shapes_of({{1, 8, 3}});
  SparseTiles tiles(shapes);
  tiles.counts = {3};
  tiles.values = {1.0f, -2.0f, 6.0f};
  quantise(shapes[0], 0, ValueCoding::kOneBit, tiles);
  EXPECT_EQ(tiles.scales[0], 3.0f);
  EXPECT_THAT(tiles.values, testing::ElementsAre(3.0f, -3.0f, 3.0f));
}

TEST(SparseQuantise, Int8RoundsHalfToEvenAndReachesTheLargest) {
  const auto shapes = shapes_of({{1, 8, 4}});
  SparseTiles tiles(shapes);
  tiles.counts = {4};
  tiles.values = {127.0f, -0.5f, 1.5f, -126.6f};
  quantise(shapes[0], 0, ValueCoding::kInt8, tiles);
  EXPECT_EQ(tiles.scales[0], 1.0f);
  EXPECT_THAT(tiles.values, testing::ElementsAre(127.0f, 0.0f, 2.0f, -127.0f));
}

TEST(SparseQuantise, TinyAndAbsentValuesGiveFiniteMessages) {
  const auto shapes = shapes_of({{2, 8, 2}});
  for (const ValueCoding coding : kCodings) {
    SparseTiles tiles(shapes);
    tiles.counts = {2, 0};
    tiles.slots = {1, 5, 0, 0};
    tiles.values = {1e-45f, -1e-42f, 0, 0};
    const Bytes bytes = encoded(shapes, coding, tiles);
    SparseTiles received(shapes);
    ASSERT_TRUE(decode_sparse(shapes, coding, bytes, received));
    expect_valid(shapes, received);
  }
}

}  // namespace
}  // namespace thinwire::codec
