#include "thinwire/data/rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <set>

#include "tests/data/scratch.h"

namespace thinwire::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The tokens 0, 1, 2, ... in two shards.
TokenSet counting(const fs::path& folder, int32_t tokens) {
  std::vector<int32_t> values(static_cast<size_t>(tokens));
  std::iota(values.begin(), values.end(), 0);
  const size_t half = values.size() / 2;
  ShardWriter first(folder / shard_name(0), 1, 1 << 20);
  first.add_document(std::span(values).first(half));
  first.commit();
  ShardWriter second(folder / shard_name(1), 1, 1 << 20);
  second.add_document(std::span(values).subspan(half));
  second.commit();
  return TokenSet::open(folder, 1, true);
}

std::vector<int32_t> row_of(const Rows& rows, uint64_t index) {
  return rows.read(std::vector{index}).tokens;
}

TEST(Rows, ARowIsTheTokensOfItsPlace) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows(set, 10, 3);
  EXPECT_EQ(rows.count(), 10u);
  for (uint64_t index = 0; index < 25; ++index) {
    const auto row = row_of(rows, index);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(row[i], static_cast<int32_t>(rows.place(index) * 10 + i));
    }
  }
}

TEST(Rows, DocumentsOfTextBeginWithTheEndOfTheOneBefore) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows = Rows::ordered(set, 5, {{}, 12});
  const RowBlock block = rows.read(std::vector<uint64_t>{2, 3, 1});
  EXPECT_EQ(block.begins, (std::vector<uint8_t>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(block.weights.empty());
}

RC_GTEST_PROP(Rows, EveryPassShowsEveryPlaceOnce, ()) {
  constexpr int32_t kTokens = 500;
  static const TokenSet set = counting(
      fs::path(testing::TempDir()) / fmt::format("data_rows_passes_{}", getpid()), kTokens);
  const auto sequence = *rc::gen::inRange(1, kTokens);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const auto pass = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
  const Rows rows(set, sequence, seed);
  std::set<uint64_t> places;
  for (uint64_t i = 0; i < rows.count(); ++i) places.insert(rows.place(pass * rows.count() + i));
  RC_ASSERT(places.size() == rows.count());
  RC_ASSERT(*places.rbegin() == rows.count() - 1);
}

TEST(Rows, PassesAndSeedsDifferInOrder) {
  const TokenSet set = counting(scratch_folder(), 1001);
  const Rows rows(set, 10, 3);
  const Rows others(set, 10, 4);
  int same_pass = 0;
  int same_seed = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    same_pass += rows.place(i) == rows.place(100 + i) ? 1 : 0;
    same_seed += rows.place(i) == others.place(i) ? 1 : 0;
  }
  EXPECT_LT(same_pass, 10);
  EXPECT_LT(same_seed, 10);
}

TEST(Rows, AreAFunctionOfSeedAndIndexAlone) {
  const TokenSet set = counting(scratch_folder(), 1001);
  EXPECT_EQ(row_of(Rows(set, 10, 3), 123456789), row_of(Rows(set, 10, 3), 123456789));
}

TEST(Rows, OrderedRowsFollowTheCorpus) {
  const TokenSet set = counting(scratch_folder(), 41);
  const Rows rows = Rows::ordered(set, 10);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(rows.place(i), i % 4);
}

TEST(Rows, ACorpusShorterThanOneRowIsAnError) {
  const TokenSet set = counting(scratch_folder(), 10);
  EXPECT_EQ(Rows(set, 9, 0).count(), 1u);
  EXPECT_THAT(error_of([&] { const Rows rows(set, 10, 0); }),
              AllOf(HasSubstr("10 tokens"), HasSubstr("train.sequence = 10")));
  EXPECT_THROW(Rows(set, 0, 0), UsageError);
}

TEST(Prefetcher, GivesTheStepsInOrderWithTheirRows) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows(set, 10, 3);
  Prefetcher prefetcher(rows, 5, [](uint64_t step) { return std::vector{2 * step, 2 * step + 1}; });
  for (uint64_t step = 5; step < 30; ++step) {
    const Batch batch = prefetcher.take();
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.rows, 2u);
    auto expected = row_of(rows, 2 * step);
    const auto second = row_of(rows, 2 * step + 1);
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(batch.tokens, expected);
  }
}

TEST(Prefetcher, StaysWithinItsDepth) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows(set, 10, 3);
  std::atomic<uint64_t> taken = 0;
  std::atomic<bool> too_far = false;
  Prefetcher prefetcher(
      rows, 0,
      [&](uint64_t step) {
        // While step is read, at most depth - 1 earlier ones wait, and one may be on its way out.
        if (step > taken + 3) too_far = true;
        return std::vector<uint64_t>{step};
      },
      3);
  for (; taken < 200; ++taken) prefetcher.take();
  EXPECT_FALSE(too_far);
}

TEST(Prefetcher, ThrowsAtTakeAfterTheGoodSteps) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows(set, 10, 3);
  Prefetcher prefetcher(rows, 0, [](uint64_t step) {
    if (step == 2) throw Error("no such step");
    return std::vector<uint64_t>{step};
  });
  prefetcher.take();
  prefetcher.take();
  EXPECT_THAT(error_of([&] { prefetcher.take(); }), HasSubstr("no such step"));
  EXPECT_THAT(error_of([&] { prefetcher.take(); }), HasSubstr("no such step"));
}

TEST(Prefetcher, EndsWhileStepsAreWaiting) {
  const TokenSet set = counting(scratch_folder(), 101);
  const Rows rows(set, 10, 3);
  for (int i = 0; i < 50; ++i) {
    const Prefetcher prefetcher(rows, 0, [](uint64_t step) { return std::vector{step}; });
  }
}

}  // namespace
}  // namespace thinwire::data
