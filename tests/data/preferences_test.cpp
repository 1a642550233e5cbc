// Pairs of answers: what lines hold, and how they are prepared and become rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/scratch.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/record_plan.h"
#include "thinwire/data/records.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using config::LongRecords;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

tl::expected<Record, std::string> read(const std::string& line, bool with_template = true) {
  config::DataSection data;
  data.records = config::RecordKind::kPreferences;
  const auto chat =
      with_template ? std::make_shared<ChatTemplate>(kChatMl, "<s>", "</s>") : nullptr;
  return RecordReader(data, chat, "there is no template").read(line);
}

// The chosen text, the rejected one, and what is learnt of both, each followed by |.
std::string shown(const tl::expected<Record, std::string>& record) {
  if (!record) return record.error();
  std::string text =
      record->text.substr(0, record->rejected) + "|" + record->text.substr(record->rejected) + "|";
  for (const auto& [begin, end] : record->learnt) {
    text += record->text.substr(begin, end - begin) + "|";
  }
  return text;
}

TEST(Preferences, OfTextsTheAnswersAreLearnt) {
  EXPECT_EQ(shown(read(R"({"prompt": "2+2=", "chosen": " 4", "rejected": " five"})")),
            "2+2= 4|2+2= five| 4| five|");
}

TEST(Preferences, OfChatsTheAnswersAreLearntButNotThePrompt) {
  const std::string talk =
      R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"},
          {"role": "user", "content": "Bye"}])";
  const std::string given = R"({"prompt": )" + talk +
                            R"(, "chosen": [{"role": "assistant", "content": "Ciao"}],
                                "rejected": [{"role": "assistant", "content": "No"}]})";
  const auto record = read(given);
  ASSERT_TRUE(record) << record.error();
  EXPECT_TRUE(record->templated);
  EXPECT_EQ(shown(record),
            "<user>Hi<assistant>Yes?<user>Bye<assistant>Ciao|"
            "<user>Hi<assistant>Yes?<user>Bye<assistant>No|Ciao|No|");
  // The same with the prompt in both answers.
  const std::string open = talk.substr(0, talk.size() - 1);
  EXPECT_EQ(shown(read(R"({"chosen": )" + open + R"(, {"role": "assistant", "content": "Ciao"}],
                          "rejected": )" +
                       open + R"(, {"role": "assistant", "content": "No"}]})")),
            shown(record));
}

TEST(Preferences, WhatIsWrongWithALineIsSaid) {
  const auto fault = [](const std::string& line) { return shown(read(line)); };
  EXPECT_EQ(fault("[1]"), "is not a JSON object");
  EXPECT_EQ(fault(R"({"prompt": "a", "chosen": "b"})"), "has no field \"rejected\"");
  EXPECT_EQ(fault(R"({"chosen": "b", "rejected": "c"})"),
            "has no field \"prompt\" (data.prompt_field)");
  EXPECT_EQ(fault(R"({"prompt": "a", "chosen": "b", "rejected": 3})"),
            "has something other than text as \"rejected\"");
  EXPECT_EQ(fault(R"({"prompt": "a", "chosen": " ", "rejected": "c"})"), "has an empty \"chosen\"");
  EXPECT_EQ(fault(R"({"prompt": "a", "chosen": "b", "rejected": "b"})"),
            "has the same answer as \"chosen\" and as \"rejected\"");
  EXPECT_THAT(fault(R"({"prompt": "a", "chosen": "b", "rejected": []})"),
              HasSubstr("only one of \"chosen\" and \"rejected\""));
  const std::string chats = R"("chosen": [{"role": "assistant", "content": "x"}],
                               "rejected": [{"role": "user", "content": "y"}])";
  EXPECT_EQ(fault("{" + chats + "}"),
            "has no message of role \"assistant\" to learn (in \"rejected\")");
  EXPECT_THAT(fault(R"({"prompt": "a", )" + chats + "}"),
              HasSubstr("something else as \"prompt\""));
  EXPECT_EQ(shown(read("{" + chats + "}", false)), "holds chats: there is no template");
  EXPECT_EQ(fault(R"({"prompt": "a", "chosen": "b\u0000", "rejected": "c"})"),
            "holds a NUL character: it is not text");
}

TokenSet training_set(const fs::path& folder) {
  auto sets = open_sets(folder, Vocabulary::load(folder)->digest());
  return std::move(sets.at("train"));
}

class PreferencePairs : public testing::Test {
 protected:
  // Prompts of 1 byte; answers of these lengths in bytes.
  TokenSet prepare_pairs(const std::vector<std::pair<int, int>>& lengths) {
    std::string lines;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto [chosen, rejected] = lengths[i];
      lines += fmt::format(
          "{{\"prompt\": \"{}\", \"chosen\": \"{:a<{}}\", \"rejected\": \"{:b<{}}\"}}\n", i, "",
          chosen, "", rejected);
    }
    write_file(folder_ / "pairs.jsonl", lines);
    config::DataSection data;
    data.dir = (folder_ / "tokens").string();
    data.text = {(folder_ / "pairs.jsonl").string()};
    data.records = config::RecordKind::kPreferences;
    data.vocabulary = config::VocabularyKind::kByte;
    data.validation_fraction = 0;
    data.shard_tokens = 20;
    summary_ = prepare(data, {.threads = 1});
    return training_set(data.dir);
  }

  const fs::path folder_ = scratch_folder();
  PrepareSummary summary_;
};

TEST_F(PreferencePairs, AreWrittenTogetherAndCountedOnce) {
  const TokenSet set = prepare_pairs({{2, 3}, {4, 1}, {1, 1}});
  EXPECT_EQ(set.kind(), ShardKind::kPairs);
  EXPECT_EQ(summary_.sets.front().documents, 3u);
  EXPECT_EQ(set.documents(), 6u);
  EXPECT_GT(set.shards().size(), 1u);
  for (const ShardReader& shard : set.shards()) EXPECT_EQ(shard.lengths().size() % 2, 0u);
  // What begins a text, the prompt, the answer and EOS, of which the last two are learnt.
  EXPECT_EQ(set.shards().front().lengths()[0], 5u);
  EXPECT_EQ(set.shards().front().lengths()[1], 6u);
  for (const uint64_t token : {0, 1, 5, 6}) EXPECT_FALSE(set.learnt(token)) << token;
  for (const uint64_t token : {2, 4, 7, 10}) EXPECT_TRUE(set.learnt(token)) << token;
  EXPECT_THAT(describe_shard(set.shards().front().path()), HasSubstr("version       3"));
}

TEST_F(PreferencePairs, ARowHoldsBothAnswersEachByItself) {
  const TokenSet set = prepare_pairs({{2, 3}, {4, 1}, {1, 1}});
  const Rows rows = Rows::ordered(set, 12);
  ASSERT_EQ(rows.count(), 3u);
  const std::vector<uint64_t> first = {0};
  const RowBlock block = rows.read(first);
  EXPECT_EQ(block.weights, (std::vector<float>{0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(block.begins, (std::vector<uint8_t>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(rows.counted(0), 1);
  EXPECT_EQ(rows.pairs_of(2).first, 2u);
  EXPECT_EQ(rows.pairs_of(2).count, 1u);
  EXPECT_EQ(rows.records()->description(), "3 pairs in 3 rows, 18 of 30 tokens learnt");
}

TEST_F(PreferencePairs, PackingNeverDividesAPair) {
  const TokenSet set = prepare_pairs({{2, 3}, {4, 1}, {1, 1}, {3, 3}});
  for (int64_t sequence = 11; sequence < 40; ++sequence) {
    const Rows rows(set, sequence, 7, {.records = {.packing = true}});
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < rows.count(); ++i) {
      const std::vector<uint64_t> index = {i};
      const RowBlock block = rows.read(index);
      const auto documents = std::ranges::count(block.begins, 1);
      const auto count = static_cast<std::ptrdiff_t>(rows.pairs_of(i).count);
      EXPECT_TRUE(documents == 2 * count || documents == 2 * count + 1) << "with padding";
      EXPECT_EQ(rows.counted(i), count);
      pairs += rows.pairs_of(i).count;
    }
    EXPECT_EQ(pairs, 4u) << sequence;
  }
}

TEST_F(PreferencePairs, LongPairsAreAnErrorSkippedOrTruncated) {
  const TokenSet set = prepare_pairs({{2, 2}, {30, 4}, {20, 20}});
  EXPECT_THAT(error_of([&] { Rows(set, 15, 1); }),
              AllOf(HasSubstr("2 of the 3 pairs of answers"), HasSubstr("the longest has 46")));
  const Rows skipped = Rows::ordered(set, 15, {.records = {.too_long = LongRecords::kSkip}});
  EXPECT_EQ(skipped.count(), 1u);
  const Rows cut = Rows::ordered(set, 15, {.records = {.too_long = LongRecords::kTruncate}});
  ASSERT_EQ(cut.count(), 3u);
  const auto begins = [&](uint64_t row) {
    const std::vector<uint64_t> index = {row};
    return cut.read(index).begins;
  };
  // 33 + 7 tokens become 9 + 7, 23 + 23 become 8 + 8.
  EXPECT_EQ(begins(1)[9], 1);
  EXPECT_EQ(std::ranges::count(begins(1), 1), 2);
  EXPECT_EQ(begins(2)[8], 1);
}

TEST_F(PreferencePairs, APairIsSkippedIfNothingIsLeftOfAnAnswer) {
  std::string lines = R"({"prompt": "long prompt", "chosen": "b", "rejected": "c"})";
  lines +=
      "\n"
      R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  write_file(folder_ / "more.jsonl", lines);
  config::DataSection data;
  data.dir = (folder_ / "tokens").string();
  data.text = {(folder_ / "more.jsonl").string()};
  data.records = config::RecordKind::kPreferences;
  data.vocabulary = config::VocabularyKind::kByte;
  data.validation_fraction = 0;
  prepare(data, {.threads = 1});
  const TokenSet set = training_set(data.dir);
  const Rows rows = Rows::ordered(set, 15, {.records = {.too_long = LongRecords::kTruncate}});
  EXPECT_EQ(rows.count(), 1u);
  EXPECT_THAT(rows.records()->description(), HasSubstr("1 with nothing to learn"));
}

}  // namespace
}  // namespace thinwire::data
