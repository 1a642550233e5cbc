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
#include "thinwire/data/sentencepiece_model.h"

namespace thinwire::data {
namespace {

using config::SentencePieceKind;
using testing::HasSubstr;

std::string train_on(const std::string& text, const SentencePieceOptions& options) {
  const std::string* next = &text;
  return train_sentencepiece([&] { return std::exchange(next, nullptr); }, options);
}

const Vocabulary& trained(SentencePieceKind type) {
  static std::map<SentencePieceKind, std::unique_ptr<Vocabulary>> made;
  auto& vocabulary = made[type];
  if (vocabulary == nullptr) {
    const fs::path file = fs::path(testing::TempDir()) /
                          fmt::format("vocabulary_{}_{}", name_of(type), getpid()) /
                          kSentencePieceFile;
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
  EXPECT_EQ(trained(SentencePieceKind::kBpe).size(), 310);
  EXPECT_EQ(trained(SentencePieceKind::kBpe).bos(), 1);
  EXPECT_EQ(trained(SentencePieceKind::kBpe).eos(), 2);
}

RC_GTEST_PROP(SentencePiece, DecodingGivesTheTextBack, (uint64_t seed)) {
  Rng rng(seed, 0);
  const std::string text = odd_text(rng);
  for (const auto type : {SentencePieceKind::kBpe, SentencePieceKind::kUnigram}) {
    const auto tokens = trained(type).encode(text);
    RC_ASSERT(trained(type).decode(tokens) == text);
  }
}

RC_GTEST_PROP(Encoder, GivesWhatTheVocabularyGives, (uint64_t seed)) {
  Rng rng(seed, 0);
  for (const auto type : {SentencePieceKind::kBpe, SentencePieceKind::kUnigram}) {
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

using Tokens = std::vector<int32_t>;

Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens all;
  for (const Tokens& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Tokens encoded(const Vocabulary& vocabulary, const std::string& text) {
  Encoder encoder(vocabulary);
  Tokens tokens;
  encoder.encode(text, tokens);
  EXPECT_EQ(tokens, vocabulary.encode(text)) << text;
  return tokens;
}

TEST(SentencePiece, ControlPiecesInATextAreTheirTokens) {
  const Vocabulary& vocabulary = trained(SentencePieceKind::kBpe);
  EXPECT_EQ(encoded(vocabulary, "<s>"), Tokens{1});
  EXPECT_EQ(encoded(vocabulary, "<unk></s>"), (Tokens{0, 2}));
  EXPECT_EQ(encoded(vocabulary, "the cat</s> sat on  it</s>\n"),
            joined({vocabulary.encode("the cat"),
                    {2},
                    vocabulary.encode(" sat on  it"),
                    {2},
                    vocabulary.encode("\n")}));
  EXPECT_TRUE(vocabulary.is_added(2));
  EXPECT_FALSE(vocabulary.is_added(100));
}

// A folder with a tokenizer.model of 310 pieces, without tokenizer.json.
std::unique_ptr<Vocabulary> with_files(const std::string& config, const std::string& added = "") {
  const fs::path folder = scratch_folder();
  write_file(folder / "tokenizer.model", read_text_file(trained(SentencePieceKind::kBpe).file()));
  write_file(folder / "tokenizer_config.json", config);
  if (!added.empty()) write_file(folder / "added_tokens.json", added);
  auto vocabulary = Vocabulary::load(folder);
  // A stored vocabulary is the same, without the files beside it.
  const fs::path stored = scratch_folder() / kSentencePieceFile;
  write_file(stored, vocabulary->stored_text());
  auto again = Vocabulary::load_file(stored);
  EXPECT_EQ(again->digest(), vocabulary->digest());
  EXPECT_EQ(again->stored_text(), vocabulary->stored_text());
  EXPECT_EQ(again->begin(), vocabulary->begin());
  return again;
}

TEST(SentencePiece, TokensThatFilesBesideItAddKeepTheirIds) {
  const auto vocabulary =
      with_files(R"({"eos_token": "<|end|>", "pad_token": {"content": "[PAD]"}})",
                 R"({"<|end|>": 311, "[PAD]": 310, "<tool>": 312})");
  EXPECT_EQ(vocabulary->size(), 313);
  EXPECT_EQ(vocabulary->eos(), 311);
  EXPECT_EQ(vocabulary->bos(), 1);
  EXPECT_EQ(vocabulary->find("[PAD]"), 310);
  EXPECT_EQ(vocabulary->name(312), "<tool>");
  EXPECT_EQ(encoded(*vocabulary, "cat<|end|>[PAD]</s>"),
            joined({trained(SentencePieceKind::kBpe).encode("cat"), {311, 310, 2}}));
  EXPECT_EQ(vocabulary->decode(Tokens{311, 312}), "<tool>") << "special tokens are no text";
  EXPECT_EQ(without_sentencepiece_rules(vocabulary->stored_text()),
            read_text_file(trained(SentencePieceKind::kBpe).file()));
}

TEST(SentencePiece, AModelAloneIsStoredAsItIs) {
  const auto vocabulary = with_files(
      R"({"bos_token": "<s>", "eos_token": "</s>", "legacy": true, "added_tokens_decoder":
          {"0": {"content": "<unk>"}, "1": {"content": "<s>"}, "2": {"content": "</s>"}}})");
  EXPECT_EQ(vocabulary->stored_text(), read_text_file(trained(SentencePieceKind::kBpe).file()));
}

TEST(SentencePiece, SpacesStandBeforePartsAsTheFolderSays) {
  const Vocabulary& plain = trained(SentencePieceKind::kBpe);
  const auto first = with_files(R"({"legacy": false})");
  const auto none = with_files(R"({"add_prefix_space": false})");
  for (const auto* vocabulary : {first.get(), none.get()}) {
    const Tokens tokens = encoded(*vocabulary, "</s>cat sat</s> cat  sat");
    EXPECT_EQ(vocabulary->decode(tokens), "cat sat cat  sat");
    EXPECT_EQ(vocabulary->piece(tokens[1]).front(), 'c') << "no space behind </s>";
  }
  EXPECT_EQ(encoded(*first, "cat sat"), plain.encode("cat sat"));
  EXPECT_EQ(encoded(*first, " cat sat"), plain.encode("cat sat")) << "one space is enough";
  EXPECT_NE(encoded(*none, "cat sat"), plain.encode("cat sat"));
  EXPECT_EQ(encoded(*none, " cat sat"), plain.encode("cat sat"));
}

RC_GTEST_PROP(Encoder, GivesWhatAVocabularyWithAddedTokensGives, (uint64_t seed)) {
  static const auto every = with_files("{}", R"({"<|x|>": 310, "the": 311})");
  static const auto first = with_files(R"({"legacy": false})", R"({"<|x|>": 310, "the": 311})");
  Rng rng(seed, 0);
  for (const Vocabulary* vocabulary : {every.get(), first.get()}) {
    Encoder encoder(*vocabulary);
    std::string text;
    for (uint64_t left = rng.below(4); left > 0; --left) {
      text += odd_text(rng) + (rng.below(2) == 0 ? "</s>" : "<|x|>");
    }
    std::vector<int32_t> tokens;
    encoder.encode(text, tokens);
    RC_ASSERT(tokens == vocabulary->encode(text));
  }
}

TEST(SentencePiece, ATextBeginsAsTheFolderSays) {
  EXPECT_EQ(with_files(R"({"add_bos_token": false})")->begin(), -1);
  EXPECT_EQ(with_files(R"({"bos_token": "</s>"})")->begin(), 2);
  EXPECT_EQ(with_files(R"({"add_bos_token": true})")->begin(), 1);
}

TEST(SentencePiece, FaultsOfFilesBesideItAreNamed) {
  EXPECT_THAT(error_of([] { with_files(R"({"eos_token": "<|no|>"})"); }),
              HasSubstr("eos_token is \"<|no|>\", which is neither a piece of tokenizer.model"));
  EXPECT_THAT(error_of([] { with_files("{}", R"({"<|x|>": -1})"); }),
              HasSubstr("added_tokens.json: the id of \"<|x|>\" must be a whole number"));
  EXPECT_THAT(error_of([] { with_files(R"({"added_tokens_decoder": {"x": {}}})"); }),
              HasSubstr("added_tokens_decoder has \"x\""));
}

TEST(SentencePiece, TheSameTextGivesTheSameBytes) {
  const SentencePieceOptions options{.type = SentencePieceKind::kUnigram, .size = 310};
  EXPECT_EQ(train_on(paragraphs(200), options), train_on(paragraphs(200), options));
}

TEST(SentencePiece, NoPieceHoldsALineBreakAndDigitsStandAlone) {
  const Vocabulary& vocabulary = trained(SentencePieceKind::kBpe);
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
  const std::string model = read_text_file(trained(SentencePieceKind::kBpe).file());
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
    EXPECT_THAT(
        error_of([&] { trained(SentencePieceKind::kBpe).decode(std::vector<int32_t>{token}); }),
        HasSubstr("outside the vocabulary of 310"));
  }
}

TEST(Vocabulary, DigestTellsFilesApart) {
  EXPECT_NE(trained(SentencePieceKind::kBpe).digest(),
            trained(SentencePieceKind::kUnigram).digest());
  EXPECT_EQ(trained(SentencePieceKind::kBpe).digest(),
            Vocabulary::load_file(trained(SentencePieceKind::kBpe).file())->digest());
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
  const Vocabulary& vocabulary = trained(SentencePieceKind::kBpe);
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
