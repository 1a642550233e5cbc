#include "thinwire/eval/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"

namespace thinwire::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int32_t kBegin = 256;

class PromptsTest : public testing::Test {
 protected:
  PromptsTest() {
    const fs::path file = tests::memory_folder() / "vocabulary.json";
    write_file(file, data::byte_vocabulary_json());
    bytes_ = data::Vocabulary::load_file(file);
  }
  Prompt prompt(const std::string& context, const std::string& continuation, int32_t begin = kBegin,
                int64_t length = 100) const {
    return Prompter(*bytes_, begin, length).continuation(context, continuation);
  }

  std::unique_ptr<data::Vocabulary> bytes_;
};

TEST_F(PromptsTest, ContextsBeginAsTextsDo) {
  const Prompt with = prompt("ab", " c");
  EXPECT_THAT(with.tokens, ElementsAre(kBegin, 'a', 'b', ' ', 'c'));
  EXPECT_EQ(with.scored, 3);
  const Prompt without = prompt("ab", " c", -1);
  EXPECT_THAT(without.tokens, ElementsAre('a', 'b', ' ', 'c'));
  EXPECT_EQ(without.scored, 2);
}

TEST_F(PromptsTest, WhiteSpaceAtAContextsEndIsTheContinuations) {
  const Prompt moved = prompt("ab \n", " c");
  EXPECT_THAT(moved.tokens, ElementsAre(kBegin, 'a', 'b', ' ', '\n', ' ', 'c'));
  EXPECT_EQ(moved.scored, 3);
}

TEST_F(PromptsTest, AnEmptyContextIsTheTokenThatTextsBeginWith) {
  EXPECT_THAT(prompt("", " c").tokens, ElementsAre(kBegin, ' ', 'c'));
  EXPECT_THAT(prompt(" ", "c", -1).tokens, ElementsAre(bytes_->bos(), ' ', 'c'));
}

TEST_F(PromptsTest, LongContextsLoseTheirBeginning) {
  const Prompt cut = prompt("abcdef", " gh", kBegin, 5);
  EXPECT_THAT(cut.tokens, ElementsAre('d', 'e', 'f', ' ', 'g', 'h'));
  EXPECT_EQ(cut.scored, 3);
  EXPECT_THAT(prompt("ab", " cde", kBegin, 4).tokens, ElementsAre('b', ' ', 'c', 'd', 'e'));
  EXPECT_THAT([&] { prompt("ab", " cdef", kBegin, 4); },
              ThrowsMessage<Error>(HasSubstr("has 5 tokens; expected 1 to 4")));
  EXPECT_THAT([&] { prompt("ab", ""); }, ThrowsMessage<Error>(HasSubstr("has 0 tokens")));
}

// As lm_eval.utils.get_rolling_token_windows with make_disjoint_window gives for these tokens.
TEST_F(PromptsTest, WindowsPredictEveryTokenOnce) {
  Prompter prompter(*bytes_, kBegin, 4);
  const auto windows = prompter.windows("abcdefghi");
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_THAT(windows[0].tokens, ElementsAre(kBegin, kBegin, 'a', 'b', 'c'));
  EXPECT_EQ(windows[0].scored, 1);
  EXPECT_THAT(windows[1].tokens, ElementsAre('c', 'd', 'e', 'f', 'g'));
  EXPECT_EQ(windows[1].scored, 1);
  EXPECT_THAT(windows[2].tokens, ElementsAre('e', 'f', 'g', 'h', 'i'));
  EXPECT_EQ(windows[2].scored, 3);
  EXPECT_EQ(prompter.windows("ab").size(), 1u);
}

TEST_F(PromptsTest, NamesACharacterWithoutTokens) {
  const fs::path file = tests::memory_folder() / "tokenizer.json";
  write_file(file, R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "dropout": null, "unk_token": "?", "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
              "vocab": {"?": 0, "a": 1, " ": 2, "b": 3}, "merges": []}})");
  const auto letters = data::Vocabulary::load_file(file);
  Prompter prompter(*letters, -1, 10);
  EXPECT_THAT(prompter.continuation("a", " b").tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT([&] { prompter.continuation("a", " b\xC3\xA9"); },
              ThrowsMessage<Error>(HasSubstr("has no tokens for '\xC3\xA9'")));
  EXPECT_THAT([&] { prompter.continuation("a\nb", " b"); },
              ThrowsMessage<Error>(HasSubstr("has no tokens for line breaks")));
}

TEST_F(PromptsTest, WhatPrecedesAGeneratedTextLeavesRoomForIt) {
  const auto before = [&](const std::string& text, int64_t length, int32_t begin = kBegin) {
    return Prompter(*bytes_, begin, length).generation_prompt(text, 3);
  };
  EXPECT_THAT(before("abc\n", 8), ElementsAre(kBegin, 'a', 'b', 'c', '\n'));
  EXPECT_THAT(before("abc\n", 6), ElementsAre('b', 'c', '\n'));
  EXPECT_THAT(before("", 6), ElementsAre(kBegin));
  EXPECT_THAT(before("", 6, -1), ElementsAre(bytes_->bos()));
  EXPECT_THAT([&] { before("abc", 3); }, ThrowsMessage<Error>(HasSubstr("leaves no room")));
}

}  // namespace
}  // namespace thinwire::eval
