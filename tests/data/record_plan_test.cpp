#include "thinwire/data/record_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/data/scratch.h"
#include "thinwire/data/rows.h"

namespace thinwire::data {
namespace {

using config::LongRecords;
using testing::AllOf;
using testing::HasSubstr;

// Records of the given lengths in shards of two each: record r has the tokens 100 r, 100 r + 1, ...
// and its last `learnt` tokens are to be learnt.
TokenSet records(const fs::path& folder, const std::vector<size_t>& lengths, size_t learnt = 2) {
  for (size_t first = 0; first < lengths.size(); first += 2) {
    ShardWriter writer(folder / shard_name(first / 2), 1, 1 << 20);
    for (size_t r = first; r < std::min(first + 2, lengths.size()); ++r) {
      std::vector<int32_t> tokens;
      std::vector<bool> mask;
      for (size_t i = 0; i < lengths[r]; ++i) {
        tokens.push_back(static_cast<int32_t>(100 * r + i));
        mask.push_back(i + learnt >= lengths[r]);
      }
      writer.add_record(tokens, mask);
    }
    writer.commit();
  }
  return TokenSet::open(folder, 1, true);
}

struct Row {
  std::vector<int32_t> tokens;
  std::vector<float> weights;
};

Row row_at(const RecordPlan& plan, uint64_t place, size_t sequence) {
  Row row{std::vector<int32_t>(sequence + 1), std::vector<float>(sequence)};
  plan.read(place, row.tokens, row.weights);
  return row;
}

TEST(RecordPlan, PadsEachRecordToARow) {
  const TokenSet set = records(scratch_folder(), {3, 5, 4});
  const RecordPlan plan(set, 5, {});
  ASSERT_EQ(plan.rows(), 3u);
  const Row first = row_at(plan, 0, 5);
  EXPECT_EQ(first.tokens, (std::vector<int32_t>{0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(first.weights, (std::vector<float>{1, 1, 0, 0, 0}));
  EXPECT_EQ(row_at(plan, 1, 5).weights, (std::vector<float>{0, 0, 1, 1, 0}));
  EXPECT_EQ(plan.counted(1), 2);
  EXPECT_EQ(plan.tokens(), 12u);
  EXPECT_EQ(Rows(set, 5, 1).tokens(), 12u);
}

TEST(RecordPlan, PacksWholeRecordsAndNeverLearnsToBeginOne) {
  const TokenSet set = records(scratch_folder(), {3, 3, 4, 2}, 4);
  const RecordPlan plan(set, 5, {.packing = true});
  ASSERT_EQ(plan.rows(), 2u);
  const Row first = row_at(plan, 0, 5);
  EXPECT_EQ(first.tokens, (std::vector<int32_t>{0, 1, 2, 100, 101, 102}));
  EXPECT_EQ(first.weights, (std::vector<float>{1, 1, 0, 1, 1})) << "100 does not follow from 2";
  EXPECT_EQ(plan.counted(0), 4);
  EXPECT_EQ(row_at(plan, 1, 5).tokens, (std::vector<int32_t>{200, 201, 202, 203, 300, 301}));
}

TEST(RecordPlan, SaysWhereRecordsAndPaddingBegin) {
  const TokenSet set = records(scratch_folder(), {3, 2, 6});
  const Rows rows = Rows::ordered(set, 6, {{.packing = true}, 0});
  EXPECT_EQ(rows.read(std::vector<uint64_t>{0, 1}).begins,
            (std::vector<uint8_t>{1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(
      Rows::ordered(set, 6, {{.packing = true}}).read(std::vector<uint64_t>{0}).begins.empty());
}

TEST(RecordPlan, LongRecordsAreAnErrorUnlessTheRecipeSaysWhatToDo) {
  const TokenSet set = records(scratch_folder(), {3, 9, 7, 4}, 3);
  EXPECT_THAT(error_of([&] { const RecordPlan plan(set, 6, {}); }),
              AllOf(HasSubstr("1 of the 4 records"), HasSubstr("longest has 9"),
                    HasSubstr("train.long_records")));
  const RecordPlan skipped(set, 6, {.too_long = LongRecords::kSkip});
  EXPECT_EQ(skipped.rows(), 3u);
  EXPECT_THAT(skipped.description(), HasSubstr("1 longer than a row skipped"));
  const RecordPlan cut(set, 6, {.too_long = LongRecords::kTruncate});
  EXPECT_EQ(cut.rows(), 4u);
  EXPECT_EQ(row_at(cut, 1, 6).tokens, (std::vector<int32_t>{100, 101, 102, 103, 104, 105, 106}));
  EXPECT_EQ(cut.counted(1), 1);
  EXPECT_THAT(cut.description(), HasSubstr("1 longer than a row truncated"));
}

TEST(RecordPlan, AnAnswerBehindTheRowIsSkippedAndCounted) {
  const TokenSet set = records(scratch_folder(), {3, 9, 8}, 2);
  const RecordPlan plan(set, 5, {.too_long = LongRecords::kTruncate});
  EXPECT_EQ(plan.rows(), 1u);
  EXPECT_THAT(plan.description(), HasSubstr("2 with nothing to learn in a row skipped"));
  EXPECT_THAT(error_of([&] { const RecordPlan none(set, 1, {.too_long = LongRecords::kSkip}); }),
              HasSubstr("no record that fits train.sequence = 1"));
}

TEST(RecordPlan, RowsOfAPassAreEachRowOnce) {
  const TokenSet set = records(scratch_folder(), {3, 5, 4, 3, 2});
  const Rows rows(set, 5, 7);
  ASSERT_TRUE(rows.weighted());
  ASSERT_EQ(rows.count(), 5u);
  std::set<int32_t> firsts;
  for (uint64_t index = 0; index < 5; ++index) {
    const RowBlock row = rows.read(std::vector{index});
    firsts.insert(row.tokens[0]);
    EXPECT_EQ(std::ranges::count(row.weights, 1.0F), rows.counted(index));
  }
  EXPECT_EQ(firsts.size(), 5u);
}

TEST(RecordShard, CostsABitATokenAndFourBytesARecord) {
  const fs::path folder = scratch_folder();
  records(folder, {20, 13});
  EXPECT_EQ(fs::file_size(folder / shard_name(0)), kShardHeaderBytes + 33 * 4 + 5 + 2 * 4);
}

TEST(RecordShard, AnAlteredMaskIsNoticed) {
  const fs::path folder = scratch_folder();
  const uint64_t before = records(folder, {20, 12}).digest();
  std::fstream file(folder / shard_name(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(kShardHeaderBytes + 32 * 4));
  file.put('\x7f');
  file.close();
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, 1, true); }), HasSubstr("altered"));
  fs::remove_all(folder);
  fs::create_directories(folder);
  EXPECT_NE(records(folder, {20, 12}, 3).digest(), before) << "the same tokens, another mask";
}

TEST(RecordShard, TruncatedOrMixedShardsAreRefused) {
  const fs::path folder = scratch_folder();
  records(folder, {20, 12, 5, 4});
  ShardWriter writer(folder / shard_name(2), 1, 1 << 20);
  writer.add_document(std::vector<int32_t>{1, 2, 3});
  writer.commit();
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, 1, true); }),
              HasSubstr("some shards there hold records and some do not"));
  fs::remove(folder / shard_name(2));
  fs::resize_file(folder / shard_name(1), fs::file_size(folder / shard_name(1)) - 1);
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, 1, true); }),
              HasSubstr("the mask of 9 tokens and the lengths of 2 records should be"));
}

}  // namespace
}  // namespace thinwire::data
