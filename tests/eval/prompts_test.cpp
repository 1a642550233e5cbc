#include "thinwire/eval/prompts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/eval/evaluate.h"

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

// A file of a vocabulary of the letters a and b, the space and an unknown token of this name.
fs::path letters_with_unknown(const std::string& name) {
  const fs::path file = tests::memory_folder() / "tokenizer.json";
  write_file(file, fmt::format(R"({{"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{{"id": 0, "content": "{0}", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {{"type": "Fuse"}},
    "model": {{"type": "BPE", "dropout": null, "unk_token": "{0}",
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "vocab": {{"{0}": 0, "a": 1, " ": 2, "b": 3}},
              "merges": []}}}})",
                               name));
  return file;
}

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
  EXPECT_EQ(cut.cut, 4);  // with the begin
  EXPECT_EQ(cut.unscored, 0);
  EXPECT_THAT(prompt("ab", " cde", kBegin, 4).tokens, ElementsAre('b', ' ', 'c', 'd', 'e'));
  EXPECT_EQ(prompt("ab", " c").cut, 0);
  EXPECT_THAT([&] { prompt("ab", ""); }, ThrowsMessage<Error>(HasSubstr("has no tokens")));
}

TEST_F(PromptsTest, OfAContinuationLongerThanTheContextTheLastTokensAreScored) {
  const Prompt whole = prompt("ab", " cde", kBegin, 4);
  EXPECT_EQ(whole.scored, 1);
  EXPECT_EQ(whole.unscored, 0);
  const Prompt cut = prompt("ab", " cdefg", kBegin, 4);
  EXPECT_THAT(cut.tokens, ElementsAre('c', 'd', 'e', 'f', 'g'));
  EXPECT_EQ(cut.scored, 1);
  EXPECT_EQ(cut.cut, 4);       // the begin, "ab" and the space
  EXPECT_EQ(cut.unscored, 2);  // the space and "c", which only precedes
}

TEST_F(PromptsTest, WhatWasCutIsCounted) {
  const std::vector<ItemPrompts> items = {
      {prompt("ab", " c", kBegin, 4), prompt("ab", " cde", kBegin, 4)},
      {prompt("ab", " cdefg", kBegin, 4)}};
  EXPECT_EQ(cut_note("mine", count_cut(items), 4),
            "mine: 2 of 3 texts do not fit into the context of 4 tokens; cut off at their "
            "beginning: 6 tokens, 2 of them from 1 choice, scored by the rest");
  EXPECT_EQ(cut_note("mine", count_cut(std::span(items).first(0)), 4), "");
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
  const auto letters = data::Vocabulary::load_file(letters_with_unknown("?"));
  Prompter prompter(*letters, -1, 10);
  EXPECT_THAT(prompter.continuation("a", " b").tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT([&] { prompter.continuation("a", " b\xC3\xA9"); },
              ThrowsMessage<Error>(HasSubstr("has no tokens for '\xC3\xA9'")));
  EXPECT_THAT([&] { prompter.continuation("a\nb", " b"); },
              ThrowsMessage<Error>(HasSubstr("has no tokens for line breaks")));
}

// As the texts of WikiText have it.
TEST_F(PromptsTest, TheNameOfTheUnknownTokenIsAToken) {
  const auto letters = data::Vocabulary::load_file(letters_with_unknown("<unk>"));
  Prompter prompter(*letters, -1, 10);
  EXPECT_THAT(prompter.continuation("a", " <unk> b").tokens, ElementsAre(1, 2, 0, 2, 3));
  EXPECT_THAT(
      [&] { prompter.continuation("a", " <unk> \xC3\xA9 b"); },
      ThrowsMessage<Error>(HasSubstr("has no tokens for '\xC3\xA9' in the text \"a <unk>")));
}

TEST_F(PromptsTest, WhatPrecedesAGeneratedTextLeavesRoomForIt) {
  const auto before = [&](const std::string& text, int64_t length, int32_t begin = kBegin) {
    return Prompter(*bytes_, begin, length).generation_prompt(text, 3).tokens;
  };
  EXPECT_EQ(Prompter(*bytes_, kBegin, 6).generation_prompt("abc\n", 3).cut, 2);
  EXPECT_THAT(before("abc\n", 8), ElementsAre(kBegin, 'a', 'b', 'c', '\n'));
  EXPECT_THAT(before("abc\n", 6), ElementsAre('b', 'c', '\n'));
  EXPECT_THAT(before("", 6), ElementsAre(kBegin));
  EXPECT_THAT(before("", 6, -1), ElementsAre(bytes_->bos()));
  EXPECT_THAT([&] { before("abc", 3); }, ThrowsMessage<Error>(HasSubstr("leaves no room")));
}

}  // namespace
}  // namespace thinwire::eval
