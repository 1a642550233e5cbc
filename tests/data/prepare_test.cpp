#include "thinwire/data/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/data/scratch.h"
#include "tests/paths.h"
#include "thinwire/data/set_writer.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Prepare : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = scratch_folder();
    write_file(folder_ / "text.txt", paragraphs(400));
    data_.dir = folder_ / "tokens";
    data_.text = {(folder_ / "text.txt").string()};
    data_.vocabulary_size = 330;
    data_.validation_fraction = 0.1;
    data_.validation_block = 4;
  }

  PrepareSummary run(const PrepareOptions& options = {}) const { return prepare(data_, options); }

  std::vector<std::string> sets() const {
    std::vector<std::string> names;
    for (const auto& [name, tokens] : open_sets(data_.dir, Vocabulary::load(data_.dir)->digest())) {
      names.push_back(name);
    }
    return names;
  }

  std::string text_of(const std::string& set) const {
    const auto vocabulary = Vocabulary::load(data_.dir);
    const TokenSet tokens = TokenSet::open(set_folder(data_.dir, set), vocabulary->digest(), true);
    std::vector<int32_t> all(tokens.tokens());
    tokens.read(0, all);
    std::string text;
    std::vector<int32_t> document;
    for (const int32_t token : all) {
      document.push_back(token);
      if (token != vocabulary->eos()) continue;
      text += vocabulary->decode(document) + "\n\n";
      document.clear();
    }
    EXPECT_TRUE(document.empty()) << "every document ends with EOS";
    return text;
  }

  // Expects that nothing but the input is left.
  void expect_nothing_left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    EXPECT_THAT(names, ElementsAre("text.txt"));
  }

  fs::path folder_;
  config::DataSection data_;
};

TEST_F(Prepare, TheSetsHoldEveryDocumentOnceInOrder) {
  const PrepareSummary summary = run();
  ASSERT_EQ(summary.sets.size(), 2u);
  EXPECT_EQ(summary.sets[0].documents, 360u);
  EXPECT_EQ(summary.sets[1].documents, 40u);
  const std::string train = text_of("train");
  const std::string validation = text_of("validation");
  EXPECT_EQ(summary.sets[0].text_bytes + 2 * 360, train.size());
  // Of every ten blocks of four documents one is held out.
  std::string expected;
  const std::string whole = paragraphs(400);
  size_t at = 0;
  for (int document = 0; document < 400; ++document) {
    const size_t end = whole.find("\n\n", at) + 2;
    if (document / 4 % 10 == 4) expected += whole.substr(at, end - at);
    at = end;
  }
  EXPECT_EQ(validation, expected);
  EXPECT_EQ(train.size() + validation.size(), whole.size());
}

TEST_F(Prepare, FurtherValidationTextsBecomeSets) {
  write_file(folder_ / "far.txt", "A text from elsewhere.");
  data_.validation_text = {"far=" + (folder_ / "far.txt").string()};
  run();
  EXPECT_THAT(sets(), ElementsAre("far", "train", "validation"));
  EXPECT_EQ(text_of("far"), "A text from elsewhere.\n\n");
}

TEST_F(Prepare, TheResultDependsOnNeitherThreadsNorTheTimeItRan) {
  run({.threads = 1});
  const std::string train = read_text_file(fs::path(data_.dir) / "train" / shard_name(0));
  run({.force = true, .threads = 3});
  EXPECT_EQ(read_text_file(fs::path(data_.dir) / "train" / shard_name(0)), train);
}

TEST_F(Prepare, TheVocabularySeesTrainingTextOnly) {
  run();
  const std::string model = read_text_file(fs::path(data_.dir) / kSentencePieceFile);
  std::string text = paragraphs(400);
  const size_t held_out = text.find("Entry 17:");
  text.replace(held_out, 8, "Xyzzy 17");
  write_file(folder_ / "text.txt", text);
  run({.force = true});
  EXPECT_EQ(read_text_file(fs::path(data_.dir) / kSentencePieceFile), model);
}

TEST_F(Prepare, ShardsHoldAtMostTheirTokens) {
  data_.shard_tokens = 1000;
  const PrepareSummary summary = run();
  EXPECT_GT(summary.sets[0].shards, 3u);
  for (uint64_t i = 0; i < summary.sets[0].shards; ++i) {
    EXPECT_LE(ShardReader(set_folder(data_.dir, "train") / shard_name(i)).tokens(), 1000u);
  }
  EXPECT_THAT(text_of("train"), HasSubstr("Entry 399:"));
}

TEST_F(Prepare, TheSecondTimeNothingIsDone) {
  EXPECT_FALSE(run().already_prepared);
  const auto written = fs::last_write_time(fs::path(data_.dir) / kSentencePieceFile);
  const PrepareSummary summary = run();
  EXPECT_TRUE(summary.already_prepared);
  EXPECT_EQ(summary.unit, "document");
  EXPECT_EQ(summary.sets[0].documents, 360u);
  EXPECT_EQ(fs::last_write_time(fs::path(data_.dir) / kSentencePieceFile), written);
}

TEST_F(Prepare, ADifferentPreparationIsAnErrorUnlessForced) {
  run();
  data_.vocabulary_size = 340;
  write_file(folder_ / "text.txt", paragraphs(300));
  EXPECT_THAT(error_of([&] { run(); }),
              AllOf(HasSubstr("data.vocabulary_size was 330, is 340"),
                    HasSubstr("text.txt has changed"), HasSubstr("--force")));
  EXPECT_EQ(run({.force = true}).vocabulary_size, 340);
  EXPECT_TRUE(run().already_prepared);
  EXPECT_FALSE(fs::exists(data_.dir + ".old"));
}

TEST_F(Prepare, AFolderThatIsNotThinwiresIsNeverReplaced) {
  write_file(fs::path(data_.dir) / "thesis.txt", "years of work");
  EXPECT_THAT(error_of([&] { run({.force = true}); }), HasSubstr("choose another folder"));
  EXPECT_TRUE(fs::exists(fs::path(data_.dir) / "thesis.txt"));
}

TEST_F(Prepare, DamageToWhatIsPreparedIsNoticed) {
  run();
  fs::resize_file(set_folder(data_.dir, "train") / shard_name(0), 1000);
  EXPECT_THAT(error_of([&] { run(); }), AllOf(HasSubstr("truncated"), HasSubstr("--force")));
  EXPECT_NO_THROW(run({.force = true}));
}

TEST_F(Prepare, AnAlteredTokenIsNoticed) {
  run();
  const fs::path shard = set_folder(data_.dir, "train") / shard_name(0);
  std::string content = read_text_file(shard);
  content.back() ^= 1;
  write_file(shard, content);
  EXPECT_THAT(error_of([&] { run(); }),
              AllOf(HasSubstr("00000.tws is altered"), HasSubstr("--force prepares it again")));
}

TEST_F(Prepare, CancellingLeavesNothing) {
  int calls = 0;
  for (int allowed = 0; allowed < 4; ++allowed) {
    calls = 0;
    EXPECT_THAT(error_of([&] { run({.cancelled = [&] { return calls++ >= allowed; }}); }),
                HasSubstr("interrupted"));
    expect_nothing_left();
  }
}

TEST_F(Prepare, AnErrorInTheTextLeavesNothing) {
  write_file(folder_ / "text.txt", paragraphs(400) + "\xFF");
  EXPECT_THAT(error_of([&] { run(); }), HasSubstr("is not UTF-8"));
  expect_nothing_left();
}

TEST_F(Prepare, WhatAKilledAttemptLeftIsRemoved) {
  write_file(fs::path(data_.dir + ".partial") / "train" / "00007.tws", "half a shard");
  run();
  EXPECT_FALSE(fs::exists(data_.dir + ".partial"));
  EXPECT_FALSE(fs::exists(set_folder(data_.dir, "train") / "00007.tws"));
}

TEST_F(Prepare, TwoAtOnceIsAnError) {
  const PartialFolder other(data_.dir);
  EXPECT_THAT(error_of([&] { run(); }), HasSubstr("another process"));
  EXPECT_TRUE(fs::exists(other.path()));
}

TEST_F(Prepare, ReplacedBytesAreCounted) {
  write_file(folder_ / "text.txt", paragraphs(400) + "\xFF \xE9t\xE9");
  data_.invalid_utf8 = config::InvalidUtf8::kReplace;
  EXPECT_EQ(run().replaced, 3u);
}

TEST_F(Prepare, AMissingTextIsNamedWithWhatWritesIt) {
  const auto error = [&](const std::string& text) {
    data_.text = {text};
    return error_of([&] { run(); });
  };
  EXPECT_EQ(error("none.txt"), "[data] text: there is no file or folder none.txt");
  EXPECT_EQ(error("data/text/kjv.txt"),
            "[data] text: there is no file or folder data/text/kjv.txt; tools/fetch_texts.sh "
            "writes it, or name a text of your own, as data.text=FILE");
}

TEST_F(Prepare, AnEmptySplitNamesTheFields) {
  data_.validation_block = 1000;
  EXPECT_THAT(error_of([&] { run(); }),
              AllOf(HasSubstr("data.validation_block = 1000"), HasSubstr("400 documents"),
                    HasSubstr("set data.validation_block=0")));
  data_.validation_fraction = 0;
  EXPECT_EQ(run().sets.size(), 1u);
  EXPECT_THAT(sets(), ElementsAre("train"));
}

TEST_F(Prepare, TheBlockAdaptsToTheText) {
  data_.vocabulary = config::VocabularyKind::kByte;
  data_.validation_block = config::DataSection().validation_block;
  data_.validation_fraction = 0.01;
  for (const int documents : {2, 3, 10, 400, 1631, 4000}) {
    write_file(folder_ / "text.txt", paragraphs(documents));
    const PrepareSummary summary = run({.force = true});
    ASSERT_EQ(summary.sets.size(), 2u) << documents;
    const auto held_out = static_cast<double>(summary.sets[1].documents);
    EXPECT_EQ(summary.sets[0].documents + summary.sets[1].documents,
              static_cast<uint64_t>(documents));
    EXPECT_LE(held_out, std::max(1.0, 0.14 * documents)) << documents;
    EXPECT_TRUE(run().already_prepared);
  }
}

TEST_F(Prepare, ASingleDocumentCannotBeSplit) {
  data_.validation_block = 0;
  write_file(folder_ / "text.txt", std::string(100'000, 'a'));
  EXPECT_THAT(error_of([&] { run(); }),
              AllOf(HasSubstr("a single document"), HasSubstr("data.document=line"),
                    HasSubstr("data.validation_fraction=0")));
  expect_nothing_left();
  data_.vocabulary = config::VocabularyKind::kByte;
  data_.validation_fraction = 0;
  EXPECT_EQ(run().sets[0].documents, 1u);
}

// Data prepared before the block could adapt is still used wherever the block would be the same.
TEST_F(Prepare, ABlockOf64IsTheOneThatALongTextGets) {
  data_.vocabulary = config::VocabularyKind::kByte;
  data_.validation_fraction = 0.1;
  data_.validation_block = 64;
  write_file(folder_ / "text.txt", paragraphs(400));
  run();
  data_.validation_block = 0;
  EXPECT_TRUE(run().already_prepared);
  data_.validation_block = 32;
  EXPECT_THAT(error_of([&] { run(); }), HasSubstr("data.validation_block was 64, is 32"));
}

TEST_F(Prepare, SkippedLinesAreCountedNamedAndKeptInTheRecord) {
  fs::remove(folder_ / "text.txt");
  std::string lines;
  for (int line = 0; line < 40; ++line) {
    lines += line % 5 == 2 ? "{\"text\": \n" : fmt::format("{{\"text\": \"line {}\"}}\n", line);
  }
  write_file(folder_ / "lines.jsonl", lines);
  data_.text = {(folder_ / "lines.jsonl").string()};
  data_.vocabulary = config::VocabularyKind::kByte;
  EXPECT_THAT(error_of([&] { run(); }), HasSubstr("data.bad_lines=skip"));
  data_.bad_lines = config::BadLines::kSkip;
  uint64_t shown = 0;
  const PrepareSummary summary = run({.progress = [&](const PrepareProgress& now) {
    shown = std::max(shown, now.skipped.count);
  }});
  EXPECT_EQ(shown, 8u);
  EXPECT_EQ(summary.skipped.count, 8u);
  ASSERT_EQ(summary.skipped.first.size(), SkippedLines::kNamed);
  EXPECT_THAT(summary.skipped.first[0], HasSubstr("lines.jsonl: line 3 is not JSON"));
  EXPECT_EQ(read_prepared(data_.dir).skipped.first, summary.skipped.first);
  EXPECT_THAT(describe_prepared(data_.dir), HasSubstr("line 3 is not JSON"));
}

TEST_F(Prepare, ATextTooShortForTheVocabularySaysHowLargeItMayBe) {
  data_.vocabulary_size = 4096;
  const std::string message = error_of([&] { run(); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("data.vocabulary_size = 4096"), HasSubstr("data.vocabulary=byte")));
  const size_t most = message.find("at most ");
  ASSERT_NE(most, std::string::npos) << message;
  data_.vocabulary_size = std::stoll(message.substr(most + 8));
  EXPECT_EQ(run().vocabulary_size, data_.vocabulary_size);
}

TEST_F(Prepare, AVocabularySmallerThanTheCharactersSaysHowLargeItMustBe) {
  data_.vocabulary_size = 16;
  const std::string message = error_of([&] { run(); });
  EXPECT_THAT(message,
              HasSubstr("data.vocabulary_size = 16 is less than the number of characters"));
  const size_t least = message.find("at least ");
  ASSERT_NE(least, std::string::npos) << message;
  data_.vocabulary_size = std::stoll(message.substr(least + 9));
  EXPECT_EQ(run().vocabulary_size, data_.vocabulary_size);
}

TEST_F(Prepare, WhatWasPreparedOtherwiseIsNamed) {
  run();
  EXPECT_TRUE(preparation_changes(data_).empty());
  config::DataSection other = data_;
  other.vocabulary_size += 1;
  ASSERT_EQ(preparation_changes(other).size(), 1u);
  EXPECT_THAT(preparation_changes(other)[0], HasSubstr("data.vocabulary_size was"));
  other.text = {"no such file.txt"};
  EXPECT_TRUE(preparation_changes(other).empty()) << "the text may be on another machine";
}

TEST_F(Prepare, NoTextIsWrongUse) {
  data_.text.clear();
  EXPECT_THROW(run(), UsageError);
}

TEST_F(Prepare, ByteVocabulary) {
  data_.vocabulary = config::VocabularyKind::kByte;
  const PrepareSummary summary = run();
  EXPECT_EQ(summary.vocabulary_size, 258);
  EXPECT_EQ(summary.sets[0].tokens, summary.sets[0].text_bytes + summary.sets[0].documents);
  EXPECT_THAT(text_of("train"), HasSubstr("Entry 399:"));
}

TEST_F(Prepare, AnExistingModelIsTakenAsItIs) {
  const fs::path model = tests::shared_data("tok/sentencepiece/test_model.model");
  if (!fs::exists(model)) GTEST_SKIP() << model << " is absent";
  data_.vocabulary_model = model;
  EXPECT_EQ(run().vocabulary_size, 1000);
  EXPECT_EQ(read_text_file(fs::path(data_.dir) / kSentencePieceFile), read_text_file(model));
  EXPECT_THAT(text_of("train"), HasSubstr(": thin"));
}

TEST_F(Prepare, AnExistingModelThatIsNoneIsAnError) {
  data_.vocabulary_model = folder_ / "text.txt";
  EXPECT_EQ(error_of([&] { run(); }),
            data_.vocabulary_model + " is not a SentencePiece model, or a damaged one");
  expect_nothing_left();
}

TEST_F(Prepare, ProgressReachesTheTotalOfEveryPass) {
  std::map<std::string, PrepareProgress> last;
  run({.progress = [&](const PrepareProgress& now) { last[now.phase] = now; }});
  for (const char* phase : {"reading", "tokenising"}) {
    EXPECT_EQ(last[phase].done, fs::file_size(folder_ / "text.txt")) << phase;
    EXPECT_EQ(last[phase].total, last[phase].done) << phase;
  }
}

TEST_F(Prepare, ATrailingSlashIsTheSameFolder) {
  data_.dir += "/";
  run();
  EXPECT_TRUE(fs::exists(folder_ / "tokens" / "prepare.json"));
  EXPECT_FALSE(fs::exists(folder_ / "tokens" / ".partial"));
}

TEST_F(Prepare, ARecordWithAValueOfAWrongTypeIsAnError) {
  run();
  const fs::path record = fs::path(data_.dir) / "prepare.json";
  std::string text = read_text_file(record);
  text.replace(text.find("\"validation_block\": 4"), 21, "\"validation_block\": \"\"");
  write_file(record, text);
  EXPECT_THAT(error_of([&] { run(); }),
              HasSubstr("prepare.json is damaged: a value in it has a wrong type; run"));
}

TEST_F(Prepare, ADamagedRecordIsAnError) {
  run();
  for (const char* content : {"", "{}", "[]", "{\"format\": \"thinwire-prepared\"}"}) {
    write_file(fs::path(data_.dir) / "prepare.json", content);
    EXPECT_THAT(error_of([&] { read_prepared(data_.dir); }),
                AllOf(HasSubstr("prepare.json is "), HasSubstr("`thinwire prepare --force`"),
                      Not(HasSubstr("json.exception"))));
  }
  EXPECT_NO_THROW(run({.force = true}));
}

TEST_F(Prepare, InspectDescribesTheFolderAndItsShards) {
  run();
  EXPECT_THAT(describe_prepared(data_.dir),
              AllOf(HasSubstr("train: 360 documents"), HasSubstr("data.validation_block = 4")));
  EXPECT_THAT(describe_shard(set_folder(data_.dir, "train") / shard_name(0)),
              HasSubstr("Entry 0:"));
}

}  // namespace
}  // namespace thinwire::data
