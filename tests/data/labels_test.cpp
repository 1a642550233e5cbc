// Texts with a class, from JSON lines to rows.
#include "thinwire/data/labels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/scratch.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

config::DataSection labelled_data(config::StringList labels = {}) {
  config::DataSection data;
  data.records = config::RecordKind::kLabels;
  data.labels = std::move(labels);
  data.vocabulary = config::VocabularyKind::kByte;
  data.validation_fraction = 0;
  return data;
}

tl::expected<Record, std::string> read(const std::string& line,
                                       const config::StringList& labels = {}) {
  return make_record_reader(labelled_data(labels))->read(line);
}

TEST(Labels, ATextHasAClassByNumberOrName) {
  EXPECT_THAT(read(R"({"text": "a", "label": 3})")->target, ElementsAre(3));
  EXPECT_THAT(read(R"({"text": "a", "label": "no"})", {"yes", "no"})->target, ElementsAre(1));
  EXPECT_THAT(read(R"({"text": "a", "label": 0})", {"yes", "no"})->target, ElementsAre(0));
  const auto pair = read(R"({"text": "ab", "text_pair": "c", "label": 1})");
  EXPECT_EQ(pair->text, "abc");
  EXPECT_EQ(pair->second, 2u);
  EXPECT_FALSE(read(R"({"text": "a", "text_pair": null, "label": 1})")->second);
}

TEST(Labels, WhatIsWrongWithALineIsNamed) {
  const auto fault = [](const std::string& line, const config::StringList& labels = {}) {
    const auto record = read(line, labels);
    return record ? "nothing" : record.error();
  };
  EXPECT_EQ(fault(R"({"label": 1})"), "has no field \"text\" (data.text_field)");
  EXPECT_EQ(fault(R"({"text": "a"})"), "has no field \"label\" (data.label_field)");
  EXPECT_EQ(fault(R"({"text": " ", "label": 1})"), "has an empty \"text\"");
  EXPECT_EQ(fault(R"({"text": "a", "text_pair": "", "label": 1})"), "has an empty \"text_pair\"");
  EXPECT_EQ(fault(R"({"text": "a", "text_pair": 3, "label": 1})"),
            "has something other than text as \"text_pair\" (data.pair_field)");
  EXPECT_EQ(fault(R"({"text": "a", "label": -1})"),
            "has the class -1; classes are whole numbers from 0 to 65535");
  EXPECT_EQ(fault(R"({"text": "a", "label": 1.5})"),
            "has the class 1.5; classes are whole numbers from 0 to 65535");
  EXPECT_EQ(fault(R"({"text": "a", "label": 2})", {"yes", "no"}),
            "has the class 2; classes are whole numbers from 0 to 1");
  EXPECT_EQ(fault(R"({"text": "a", "label": "maybe"})", {"yes", "no"}),
            "has the class \"maybe\", which is not in data.labels = yes, no");
  EXPECT_EQ(fault(R"({"text": "a", "label": "yes"})"),
            "has the class \"yes\"; data.labels gives classes names");
}

TEST(Numbers, AreTheBytesOfTheirFp32) {
  for (const float number : {0.0F, 3.75F, -1e-30F, 3e38F}) {
    EXPECT_EQ(number_of_tokens(tokens_of_number(number)), number);
  }
  EXPECT_THAT(tokens_of_number(1.0F), ElementsAre(0, 0, 0x80, 0x3F));
  const std::vector<std::vector<int32_t>> wrong = {
      {0, 0, 0}, {0, 0, 256, 0}, {-1, 0, 0, 0}, {0, 0, 0x80, 0x7F}};  // the last one is infinite
  for (const std::vector<int32_t>& tokens : wrong) {
    EXPECT_THROW(number_of_tokens(tokens), Error);
  }
}

TEST(Numbers, WhatIsNoneIsNamed) {
  config::DataSection data = labelled_data();
  data.records = config::RecordKind::kNumbers;
  const auto reader = make_record_reader(data);
  EXPECT_EQ(number_of_tokens(reader->read(R"({"text": "a", "label": 2.5})")->target), 2.5F);
  EXPECT_EQ(number_of_tokens(reader->read(R"({"text": "a", "label": -3})")->target), -3);
  EXPECT_EQ(reader->read(R"({"text": "a"})").error(), "has no field \"label\" (data.label_field)");
  for (const char* number : {"\"2.5\"", "null", "1e39"}) {
    EXPECT_EQ(reader->read(fmt::format(R"({{"text": "a", "label": {}}})", number)).error(),
              fmt::format("has {} as \"label\" (data.label_field), which must be a number",
                          number == std::string("1e39") ? "1e+39" : number));
  }
}

// Texts as prepared with the byte vocabulary, whose EOS is 256 and BOS 257.
class LabelledRows : public testing::Test {
 protected:
  void prepare_lines(const std::string& lines,
                     config::RecordKind records = config::RecordKind::kLabels) {
    folder_ = scratch_folder();
    write_file(folder_ / "in.jsonl", lines);
    config::DataSection data = labelled_data();
    data.records = records;
    data.text = {(folder_ / "in.jsonl").string()};
    data.dir = (folder_ / "out").string();
    prepare(data, {.threads = 1});
    sets_ = open_sets(data.dir, Vocabulary::load(data.dir)->digest());
  }
  RowBlock row(int64_t sequence, const RecordOptions& options = {}) const {
    return Rows::ordered(sets_.at("train"), sequence, {.records = options})
        .read(std::vector<uint64_t>{0});
  }

  fs::path folder_;
  std::map<std::string, TokenSet> sets_;
};

TEST_F(LabelledRows, AClassIsPredictedByTheEndOfItsTextAndBeginsADocument) {
  prepare_lines("{\"text\": \"a\", \"text_pair\": \"bc\", \"label\": 2}\n");
  const RowBlock row = this->row(9);
  EXPECT_EQ(sets_.at("train").kind(), ShardKind::kClasses);
  EXPECT_THAT(row.tokens, ElementsAre(257, 'a', 256, 256, 'b', 'c', 256, 2, 0, 0));
  EXPECT_THAT(row.weights, ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0));
  EXPECT_THAT(row.begins, ElementsAre(1, 0, 0, 0, 0, 0, 0, 1, 1));
}

TEST_F(LabelledRows, PackedTextsAreDocumentsOfTheirOwn) {
  prepare_lines("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0}\n");
  const RowBlock row = this->row(7, {.packing = true});
  EXPECT_THAT(row.tokens, ElementsAre(257, 'a', 256, 1, 257, 'b', 256, 0));
  EXPECT_THAT(row.weights, ElementsAre(0, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(row.begins, ElementsAre(1, 0, 0, 1, 1, 0, 0));
}

TEST_F(LabelledRows, ATruncatedTextKeepsItsEndAndItsClass) {
  prepare_lines("{\"text\": \"abcdef\", \"label\": 7}\n");
  const RowBlock row = this->row(4, {.too_long = config::LongRecords::kTruncate});
  EXPECT_THAT(row.tokens, ElementsAre(257, 'a', 'b', 256, 7));
  EXPECT_THAT(row.weights, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT([&] { this->row(4); }, ThrowsMessage<Error>(HasSubstr("longer than a row")));
}

TEST_F(LabelledRows, ANumberIsADocumentOfFourTokens) {
  prepare_lines("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 2.5}\n",
                config::RecordKind::kNumbers);
  const TokenSet& tokens = sets_.at("train");
  EXPECT_EQ(tokens.kind(), ShardKind::kNumbers);
  EXPECT_TRUE(tokens.learnt(3) && !tokens.learnt(6));
  const RowBlock row = this->row(13, {.packing = true});
  EXPECT_THAT(row.tokens,
              ElementsAre(257, 'a', 256, 0, 0, 0x80, 0x3F, 257, 'b', 256, 0, 0, 0x20, 0x40));
  EXPECT_THAT(row.weights, ElementsAre(0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(row.begins, ElementsAre(1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0));
}

TEST_F(LabelledRows, ATruncatedTextKeepsItsEndAndItsNumber) {
  prepare_lines("{\"text\": \"abcdef\", \"label\": 1}\n", config::RecordKind::kNumbers);
  const RecordOptions truncate = {.too_long = config::LongRecords::kTruncate};
  EXPECT_THAT(this->row(6, truncate).tokens, ElementsAre(257, 'a', 256, 0, 0, 0x80, 0x3F));
  EXPECT_THAT(this->row(4, truncate).tokens, ElementsAre(256, 0, 0, 0x80, 0x3F));
  EXPECT_THAT([&] { this->row(3, truncate); },
              ThrowsMessage<UsageError>(HasSubstr("train.sequence must be >= 4")));
}

TEST_F(LabelledRows, AClassBeyondTheVocabularyIsAnError) {
  EXPECT_THAT([&] { prepare_lines("{\"text\": \"a\", \"label\": 999}\n"); },
              ThrowsMessage<Error>(HasSubstr("token 999 is outside the vocabulary of 258")));
}

}  // namespace
}  // namespace thinwire::data
