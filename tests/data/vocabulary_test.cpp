#include "thinwire/data/vocabulary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "tests/data/scratch.h"
#include "tests/paths.h"
#include "thinwire/base/rng.h"
#include "thinwire/data/encoder.h"

namespace thinwire::data {
namespace {

using testing::HasSubstr;

std::string train_on(const std::string& text, const SentencePieceOptions& options) {
  const std::string* next = &text;
  return train_sentencepiece([&] { return std::exchange(next, nullptr); }, options);
}

const Vocabulary& trained(const std::string& type) {
  static std::map<std::string, std::unique_ptr<Vocabulary>> made;
  auto& vocabulary = made[type];
  if (vocabulary == nullptr) {
    const fs::path file = fs::path(testing::TempDir()) /
                          fmt::format("vocabulary_{}_{}", type, getpid()) / kSentencePieceFile;
    write_file(file, train_on(paragraphs(400), {.type = type, .size = 310}));
    vocabulary = Vocabulary::load(file.parent_path());
  }
  return *vocabulary;
}

std::unique_ptr<Vocabulary> byte_vocabulary() {
  const fs::path folder = scratch_folder();
  write_file(folder / kByteFile, byte_vocabulary_json());
  return Vocabulary::load(folder);
}

// Text with everything that tokenisers stumble over.
std::string odd_text(Rng& rng) {
  constexpr std::string_view kPieces[] = {" ",     "  ",  "\n", "\t",     "the",       "wire",
                                          "Entry", "7",   "42", "\u00e9", "\u20ac",    "\x01",
                                          ".",     "cat", " a", "\r",     "\U0001F600"};
  std::string text;
  for (uint64_t left = rng.below(30); left > 0; --left) {
    text += kPieces[rng.below(std::size(kPieces))];
  }
  return text;
}

TEST(SentencePiece, HasTheIdsOfLlama) {
  EXPECT_EQ(trained("bpe").size(), 310);
  EXPECT_EQ(trained("bpe").bos(), 1);
  EXPECT_EQ(trained("bpe").eos(), 2);
}

RC_GTEST_PROP(SentencePiece, DecodingGivesTheTextBack, (uint64_t seed)) {
  Rng rng(seed, 0);
  const std::string text = odd_text(rng);
  for (const char* type : {"bpe", "unigram"}) {
    const auto tokens = trained(type).encode(text);
    RC_ASSERT(trained(type).decode(tokens) == text);
  }
}

RC_GTEST_PROP(Encoder, GivesWhatTheVocabularyGives, (uint64_t seed)) {
  Rng rng(seed, 0);
  for (const char* type : {"bpe", "unigram"}) {
    Encoder encoder(trained(type));
    for (int i = 0; i < 3; ++i) {
      const std::string text = odd_text(rng);
      std::vector<int32_t> tokens;
      encoder.encode(text, tokens);
      RC_ASSERT(tokens == trained(type).encode(text));
    }
  }
}

TEST(Encoder, AgreesWithAnImportedModelThatNormalises) {
  const fs::path model = tests::shared_data("tok/sentencepiece/test_model.model");
  if (!fs::exists(model)) GTEST_SKIP() << model << " is absent";
  const auto vocabulary = Vocabulary::load_file(model);
  Encoder encoder(*vocabulary);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed, 1);
    const std::string text = odd_text(rng);
    std::vector<int32_t> tokens;
    encoder.encode(text, tokens);
    EXPECT_EQ(tokens, vocabulary->encode(text)) << text;
  }
}

TEST(SentencePiece, TheSameTextGivesTheSameBytes) {
  const SentencePieceOptions options{.type = "unigram", .size = 310};
  EXPECT_EQ(train_on(paragraphs(200), options), train_on(paragraphs(200), options));
}

TEST(SentencePiece, NoPieceHoldsALineBreakAndDigitsStandAlone) {
  const Vocabulary& vocabulary = trained("bpe");
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string piece = vocabulary.piece(token);
    EXPECT_TRUE(piece == "\n" || piece.find('\n') == std::string::npos) << piece;
  }
  EXPECT_EQ(vocabulary.encode("a 2024").size(), vocabulary.encode("a ").size() + 4);
}

TEST(SentencePiece, TooLargeAVocabularyNamesTheField) {
  EXPECT_THAT(error_of([] { train_on("a b c\n", {.size = 5000}); }),
              HasSubstr("data.vocabulary_size = 5000"));
}

TEST(SentencePiece, TooSmallAVocabularyNamesTheField) {
  EXPECT_THAT(error_of([] { train_on(paragraphs(50), {.size = 100}); }),
              HasSubstr("data.vocabulary_size = 100"));
}

TEST(SentencePiece, NoTextIsAnError) {
  EXPECT_THAT(error_of([] { train_sentencepiece([] { return nullptr; }, {}); }),
              HasSubstr("no text"));
}

TEST(Vocabulary, DamagedModelsAreErrorsThatNameTheFile) {
  const std::string model = read_text_file(trained("bpe").file());
  const fs::path file = scratch_folder() / "damaged.model";
  for (const std::string& content :
       {std::string(), std::string("no model"), model.substr(0, model.size() / 2)}) {
    write_file(file, content);
    EXPECT_THAT(error_of([&] { Vocabulary::load_file(file); }), HasSubstr("damaged.model"));
  }
}

TEST(Vocabulary, AFolderWithoutOneIsAnError) {
  const fs::path folder = scratch_folder();
  EXPECT_THAT(error_of([&] { Vocabulary::load(folder); }), HasSubstr(kSentencePieceFile));
}

TEST(Vocabulary, AJsonFileOfAnotherFormatIsAnError) {
  const fs::path file = scratch_folder() / kByteFile;
  for (const char* content : {"", "[]", "{}", "{\"vocabulary\": 7}", "not json"}) {
    write_file(file, content);
    EXPECT_THAT(error_of([&] { Vocabulary::load_file(file); }), HasSubstr(kByteFile)) << content;
  }
}

TEST(Vocabulary, TokensOutsideItAreErrors) {
  for (const int32_t token : {-1, 310}) {
    EXPECT_THAT(error_of([&] { trained("bpe").decode(std::vector<int32_t>{token}); }),
                HasSubstr("outside the vocabulary of 310"));
  }
}

TEST(Vocabulary, DigestTellsFilesApart) {
  EXPECT_NE(trained("bpe").digest(), trained("unigram").digest());
  EXPECT_EQ(trained("bpe").digest(), Vocabulary::load_file(trained("bpe").file())->digest());
}

TEST(ByteVocabulary, IsTheBytesThenEosThenBos) {
  const auto vocabulary = byte_vocabulary();
  EXPECT_EQ(vocabulary->size(), 258);
  EXPECT_EQ(vocabulary->eos(), 256);
  EXPECT_EQ(vocabulary->bos(), 257);
  EXPECT_EQ(vocabulary->encode("\u00e9"), (std::vector<int32_t>{0xC3, 0xA9}));
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{257, ' ', 'a', 0xC3, 0xA9, 256}), " a\u00e9");
}

TEST(TextStream, GivesOutCompleteCharactersOnly) {
  const auto vocabulary = byte_vocabulary();
  TextStream stream(*vocabulary);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.push(0xAC), "\u20ac");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('x'), "\uFFFDx");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, KeepsTheLeadingSpaceOfAContinuation) {
  const Vocabulary& vocabulary = trained("bpe");
  const auto tokens = vocabulary.encode("cat");
  TextStream begins(vocabulary);
  TextStream continues(vocabulary, true);
  std::string first;
  std::string second;
  for (const int32_t token : tokens) {
    first += begins.push(token);
    second += continues.push(token);
  }
  EXPECT_EQ(first, "cat");
  EXPECT_EQ(second, " cat");
}

}  // namespace
}  // namespace thinwire::data
