// A tokenizer.json small enough to follow by hand. tokenizer_slow_test.py compares those of real
// families with the package that they are made for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/scratch.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/data/encoder.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Bytes by their characters: "Ġ" (U+0120) is a space, "Ã" and "©" are the bytes of é.
json byte_level() {
  return {{"added_tokens",
           {{{"id", 9}, {"content", "<end>"}, {"special", true}},
            {{"id", 10}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab",
             {{"a", 0},
              {"b", 1},
              {"\u0120", 2},
              {"\u00c3", 3},
              {"\u00a9", 4},
              {"ab", 5},
              {"\u0120ab", 6},
              {"\u00c3\u00a9", 7},
              {"aa", 8}}},
            {"merges", {"a b", "\u0120 ab", "\u00c3 \u00a9", "a a"}}}}};
}

std::unique_ptr<Vocabulary> load(const json& tokenizer, const std::string& config) {
  const fs::path folder = scratch_folder();
  write_file(folder / "tokenizer.json", print_json(tokenizer));
  write_file(folder / "tokenizer_config.json", config);
  return Vocabulary::load(folder);
}

TEST(Tokenizer, MergesBytesInsideWords) {
  const auto vocabulary = load(byte_level(), R"({"eos_token": "<end>"})");
  EXPECT_THAT(vocabulary->encode("ab ab"), ElementsAre(5, 6));
  EXPECT_THAT(vocabulary->encode("aab"), ElementsAre(0, 5)) << "a b is merged before a a";
  EXPECT_THAT(vocabulary->encode(" \u00e9a"), ElementsAre(2, 7, 0));
  EXPECT_THAT(vocabulary->encode(""), ElementsAre());
  EXPECT_EQ(vocabulary->decode(vocabulary->encode(" ab\u00e9 aab")), " ab\u00e9 aab");
}

TEST(Tokenizer, FindsAddedTokensFirst) {
  const auto vocabulary = load(byte_level(), R"({"eos_token": {"content": "<end>"}})");
  EXPECT_THAT(vocabulary->encode("ab<tool>ab<end>"), ElementsAre(5, 10, 5, 9));
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{5, 10, 9}), "ab<tool>");
  EXPECT_EQ(vocabulary->size(), 11);
  EXPECT_EQ(vocabulary->eos(), 9);
  EXPECT_EQ(vocabulary->bos(), -1);
  EXPECT_EQ(vocabulary->begin(), -1);
  EXPECT_EQ(vocabulary->name(9), "<end>");
}

TEST(Tokenizer, APostProcessorSaysHowTextsBegin) {
  json tokenizer = byte_level();
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<end>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  const auto vocabulary = load(tokenizer, R"({"eos_token": "<end>"})");
  EXPECT_EQ(vocabulary->begin(), 9);
  EXPECT_THAT(vocabulary->encode("ab"), ElementsAre(5));
}

TEST(Tokenizer, IsKeptInOneFileWithItsEndOfText) {
  const auto vocabulary = load(byte_level(), R"({"eos_token": "<end>"})");
  const fs::path folder = scratch_folder() / "kept";
  write_file(folder / vocabulary->stored_name(), vocabulary->stored_text());
  const auto kept = Vocabulary::load(folder);
  EXPECT_EQ(kept->eos(), 9);
  EXPECT_EQ(kept->digest(), vocabulary->digest());
  EXPECT_EQ(kept->stored_text(), vocabulary->stored_text());
  EXPECT_EQ(tokenizer_json_in(kept->stored_text()), print_json(byte_level()));
}

// "▁ab" for "ab": the space in front is the tokenizer's own, and no word stands alone.
TEST(Tokenizer, EncodesTextsInOneGoWhereASpaceIsPutBefore) {
  json tokenizer = byte_level();
  tokenizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "_"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}}}}};
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {{"type", "Sequence"},
                          {"decoders",
                           {{{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}},
                            {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  tokenizer["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"_", 2}, {"ab", 5}};
  tokenizer["model"]["merges"] = json::array({"a b"});
  const auto vocabulary = load(tokenizer, R"({"eos_token": "<end>"})");
  const std::string text = " ab<tool> b";
  EXPECT_THAT(vocabulary->encode(text), ElementsAre(2, 2, 5, 10, 2, 2, 1));
  Encoder encoder(*vocabulary);
  std::vector<int32_t> tokens;
  encoder.encode(text, tokens);
  EXPECT_EQ(tokens, vocabulary->encode(text));
  EXPECT_EQ(vocabulary->decode(vocabulary->encode(" ab b")), " ab b");
}

TEST(Tokenizer, WhatIsWrongIsNamedWithItsPlace) {
  const auto refusal = [](const json& tokenizer) {
    return error_of([&] { load(tokenizer, "{}"); });
  };
  json wrong = byte_level();
  wrong["model"]["merges"].push_back("a b");
  EXPECT_THAT(refusal(wrong), HasSubstr("model.merges[4] merges \"a\" and \"b\", as an earlier"));
  wrong = byte_level();
  wrong["model"]["vocab"]["c"] = 0;
  EXPECT_THAT(refusal(wrong), HasSubstr("model.vocab has the id 0"));
  wrong = byte_level();
  wrong["added_tokens"][1]["id"] = 0;
  EXPECT_THAT(refusal(wrong), HasSubstr("gives \"<tool>\" the id 0"));
  wrong = byte_level();
  wrong["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", json::array({json::object({{"type", "UnicodeScripts"}})})}};
  EXPECT_THAT(refusal(wrong), HasSubstr("pre_tokenizer.pretokenizers[0] has the type"));
  wrong = byte_level();
  wrong["model"]["vocab"][""] = 11;
  EXPECT_THAT(refusal(wrong), HasSubstr("model.vocab has an empty piece, with the id 11"));
  wrong = byte_level();
  wrong["dictionary"] = {{"a", "b"}};
  EXPECT_THAT(refusal(wrong), HasSubstr("it has the field \"dictionary\", which is not supported"));
  EXPECT_THAT(error_of([] { load(byte_level(), R"({"eos_token": "<no>"})"); }),
              HasSubstr("eos_token is \"<no>\", which is not a token"));
}

json split_by(const std::string& regex) {
  json tokenizer = byte_level();
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  return tokenizer;
}

TEST(Tokenizer, APatternThatTriesTooManyWaysIsNamed) {
  constexpr const char* kEnd = R"({"eos_token": "<end>"})";
  const auto hostile = load(split_by("(a+)+$"), kEnd);
  EXPECT_THAT(hostile->encode("aa"), ElementsAre(8));
  EXPECT_THAT(
      error_of([&] { hostile->encode(std::string(60, 'a') + "b"); }),
      HasSubstr(R"(the tokenizer's pattern "(a+)+$" takes too long on a text of 61 bytes)"));
  EXPECT_THAT(error_of([&] { load(split_by(R"((a*)\1b)"), kEnd); }),
              HasSubstr(R"(Regex is "(a*)\1b"; references to groups are not supported)"));
  // The most steps per byte that a known pattern takes: Qwen 2's, of digits.
  const auto qwen = load(
      split_by(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
      kEnd);
  EXPECT_NO_THROW(qwen->encode(std::string(2'500'000, '1')));
}

}  // namespace
}  // namespace thinwire::data
