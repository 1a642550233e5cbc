#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/codec/sparse.h"

namespace thinwire::codec {
namespace {

// A tile of 4 x 4 slots, of which members send two.
method::TilePlan plan_of(int64_t tiles, int64_t k) {
  const std::vector<TensorSpec> tensors = {{"a", {4, 4 * tiles}}};
  return method::plan_tiles(tensors, {.chunk = 4, .k = k, .fixed_k = false});
}

SparseSumForm form_of(int64_t kept, ValueFormat values = ValueFormat::kF32,
                      method::SlotMean mean = method::SlotMean::kOfSenders) {
  return {plan_of(1, 2), ValueFormat::kF32, plan_of(1, kept), values, mean};
}

using Entries = std::map<uint16_t, float>;

Bytes message_of(const Entries& entries) {
  const std::vector<SparseShape> shapes = shapes_of(plan_of(1, 2));
  SparseTiles tiles(shapes);
  size_t at = 0;
  for (const auto& [slot, value] : entries) {
    tiles.slots[at] = slot;
    tiles.values[at++] = value;
  }
  tiles.counts[0] = static_cast<uint32_t>(at);
  Bytes bytes;
  encode_sparse(shapes, ValueFormat::kF32, tiles, bytes);
  return bytes;
}

// What the mean of these messages decodes to, each with its weight.
Entries mean_of(const SparseSumForm& form, const std::vector<std::pair<Entries, float>>& sent) {
  ThreadPool threads(1);
  SparseSum sum(form, threads);
  sum.begin();
  for (const auto& [entries, weight] : sent) {
    const Bytes message = message_of(entries);
    EXPECT_TRUE(sum.add(message, weight));
  }
  const Bytes coded = sum.finish();
  const std::vector<SparseShape> shapes = shapes_of(form.kept);
  SparseTiles tiles(shapes);
  EXPECT_TRUE(decode_sparse(shapes, form.values, coded, tiles));
  Entries entries;
  for (size_t i = 0; i < tiles.counts[0]; ++i) entries[tiles.slots[i]] = tiles.values[i];
  return entries;
}

TEST(SparseSum, HasAllThatWasSentWhereItMayKeepAll) {
  EXPECT_EQ(mean_of(form_of(16), {{{{1, 3}, {5, 2}}, 1.0f}, {{{5, 4}, {7, -1}}, 1.0f}}),
            (Entries{{1, 3}, {5, 3}, {7, -1}}));
}

TEST(SparseSum, IsTheMeanOfAllWhereThatIsAsked) {
  const auto form = form_of(16, ValueFormat::kF32, method::SlotMean::kOfAll);
  EXPECT_EQ(mean_of(form, {{{{1, 3}}, 0.25f}, {{{1, 1}, {5, 4}}, 0.25f}}),
            (Entries{{1, 2}, {5, 2}}));
}

TEST(SparseSum, CountsByWeights) {
  EXPECT_EQ(mean_of(form_of(16), {{{{1, 4}}, 0.75f}, {{{1, 8}, {2, 8}}, 0.25f}}),
            (Entries{{1, 5}, {2, 8}}));
}

// Slot 5 has the larger mean, but a single sender.
TEST(SparseSum, KeepsTheLargestSumsAndNotTheLargestMeans) {
  EXPECT_EQ(mean_of(form_of(2), {{{{1, 2}, {5, 3}}, 1.0f}, {{{1, 2}, {7, -5}}, 1.0f}}),
            (Entries{{1, 2}, {7, -5}}));
}

TEST(SparseSum, KeepsTheLowestOfEqualSlotsAndNoZeros) {
  EXPECT_EQ(mean_of(form_of(2), {{{{3, 2}, {9, 1}}, 1.0f}, {{{2, -2}, {9, -1}}, 1.0f}}),
            (Entries{{2, -2}, {3, 2}}));
  EXPECT_EQ(mean_of(form_of(3), {{{{3, 2}, {9, 1}}, 1.0f}, {{{9, -1}, {12, 1}}, 1.0f}}),
            (Entries{{3, 2}, {12, 1}}));
}

TEST(SparseSum, IsQuantisedOnceItIsAMean) {
  EXPECT_EQ(mean_of(form_of(16, ValueFormat::kOneBit),
                    {{{{1, 4}, {5, 6}}, 1.0f}, {{{5, 2}, {7, -1}}, 1.0f}}),
            (Entries{{1, 3}, {5, 3}, {7, -3}}));
}

TEST(SparseSum, BeginsAgainWithZero) {
  ThreadPool threads(1);
  SparseSum sum(form_of(2), threads);
  std::vector<Bytes> results;
  for (int round = 0; round < 2; ++round) {
    sum.begin();
    const Bytes message = message_of({{1, 3}, {5, 2}});
    ASSERT_TRUE(sum.add(message, 1));
    results.push_back(sum.finish());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(SparseSum, RefusesWhatDoesNotDecode) {
  ThreadPool threads(1);
  SparseSum sum(form_of(2), threads);
  sum.begin();
  EXPECT_EQ(sum.add(Bytes(3), 1).error().kind, FailureKind::kCorruptPayload);
}

TEST(SparseSum, HasTheSameBytesWithAnyNumberOfThreads) {
  const std::vector<TensorSpec> tensors = {{"a", {128, 192}}, {"b", {50}}, {"c", {64, 1024}}};
  const SparseSumForm form = {method::plan_tiles(tensors, {64, 32, false}), ValueFormat::kOneBit,
                              method::plan_tiles(tensors, {64, 48, false}), ValueFormat::kInt8,
                              method::SlotMean::kOfSenders};
  const std::vector<SparseShape> shapes = shapes_of(form.sent);
  Rng rng(3, 0);
  std::vector<Bytes> messages;
  for (int member = 0; member < 3; ++member) {
    SparseTiles tiles(shapes);
    for (const SparseShape& shape : shapes) {
      for (int64_t tile = 0; tile < shape.tiles; ++tile) {
        auto at = static_cast<size_t>(shape.first_kept + tile * shape.kept);
        for (int i = 0; i < shape.kept; ++i, ++at) {
          tiles.slots[at] = static_cast<uint16_t>(i * shape.slots / shape.kept +
                                                  static_cast<int>(rng.below(2)) % shape.slots);
          tiles.values[at] = static_cast<float>(rng.below(1000)) - 500.5f;
        }
        tiles.counts[static_cast<size_t>(shape.first_tile + tile)] =
            static_cast<uint32_t>(shape.kept);
      }
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      quantise(shapes[i], i, ValueFormat::kOneBit, tiles);
    }
    encode_sparse(shapes, ValueFormat::kOneBit, tiles, messages.emplace_back());
  }
  std::vector<Bytes> results;
  for (const int count : {1, 3}) {
    ThreadPool threads(count);
    SparseSum sum(form, threads);
    sum.begin();
    for (const Bytes& message : messages) ASSERT_TRUE(sum.add(message, 1));
    results.push_back(sum.finish());
  }
  EXPECT_EQ(results[0], results[1]);
}

// The entries of `own` that a sum of at most `kept` slots with these entries leaves out of it.
Entries left_out(int64_t kept, const Entries& in_sum, const Entries& own) {
  const std::vector<SparseShape> sent_shapes = shapes_of(plan_of(1, 2));
  const std::vector<SparseShape> shapes = shapes_of(plan_of(1, kept));
  SparseTiles tiles(shapes);
  for (const auto& [slot, value] : in_sum) {
    tiles.slots[tiles.counts[0]] = slot;
    tiles.values[tiles.counts[0]++] = value;
  }
  Bytes coded;
  encode_sparse(shapes, ValueFormat::kF32, tiles, coded);
  SparseMessage sum(shapes, ValueFormat::kF32);
  EXPECT_TRUE(sum.open(coded));
  EXPECT_TRUE(sum.decode(0, sum.segments().size()));
  SparseTiles sent(sent_shapes);
  EXPECT_TRUE(decode_sparse(sent_shapes, ValueFormat::kF32, message_of(own), sent));
  const bool any = keep_left_out(sent_shapes, shapes, sum, sent);
  Entries entries;
  for (size_t i = 0; i < sent.counts[0]; ++i) entries[sent.slots[i]] = sent.values[i];
  EXPECT_EQ(any, !entries.empty());
  return entries;
}

TEST(LeftOut, IsWhatAFullTileHasNoRoomFor) {
  EXPECT_EQ(left_out(2, {{1, 1}, {3, 1}}, {{3, 5}, {4, 6}}), (Entries{{4, 6}}));
  EXPECT_EQ(left_out(2, {{1, 1}, {4, 1}}, {{1, 5}, {4, 6}}), Entries());
}

// What is missing there has a sum of zero.
TEST(LeftOut, IsNothingOfATileThatIsNotFull) {
  EXPECT_EQ(left_out(3, {{1, 1}, {3, 1}}, {{3, 5}, {4, 6}}), Entries());
}

}  // namespace
}  // namespace thinwire::codec
