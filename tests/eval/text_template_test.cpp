#include "thinwire/eval/text_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"

namespace thinwire::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const nlohmann::json& record() {
  static const auto json = parse_json<nlohmann::json>(R"({
    "stem": "Why?", "number": 3, "half": 0.5,
    "options": [{"text": "a"}, {"text": "b"}, {"text": "c"}],
    "inner": {"sentence": "Put the _ down. "}
  })");
  return json;
}

std::vector<std::string> fill(const std::string& text) { return TextTemplate(text).fill(record()); }

TEST(TextTemplate, FillsPlacesWithFields) {
  EXPECT_THAT(fill("plain"), ElementsAre("plain"));
  EXPECT_THAT(fill(""), ElementsAre(""));
  EXPECT_THAT(fill("Question: {stem}\nAnswer:"), ElementsAre("Question: Why?\nAnswer:"));
  EXPECT_THAT(fill("{stem}{number}"), ElementsAre("Why?3"));
  EXPECT_THAT(fill("{half}"), ElementsAre("0.5"));
}

TEST(TextTemplate, AListGivesATextForEachElement) {
  EXPECT_THAT(fill("{options[].text}"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(fill("{stem} {options[].text}."), ElementsAre("Why? a.", "Why? b.", "Why? c."));
}

TEST(TextTemplate, EditsApplyInOrder) {
  EXPECT_THAT(fill("{inner.sentence|before_blank}"), ElementsAre("Put the "));
  EXPECT_THAT(fill("{inner.sentence|after_blank|strip}"), ElementsAre("down."));
  EXPECT_THAT(fill("{inner.sentence|strip|last_word}"), ElementsAre("down."));
  EXPECT_THAT(fill("{inner.sentence|strip|before_last_word}"), ElementsAre("Put the _"));
}

TEST(TextTemplate, NamesTheFieldThatIsMissingOrNoText) {
  EXPECT_THAT([] { fill("{stim}"); }, ThrowsMessage<Error>(HasSubstr("no field 'stim'")));
  EXPECT_THAT([] { fill("{inner.x}"); }, ThrowsMessage<Error>(HasSubstr("no field 'inner.x'")));
  EXPECT_THAT([] { fill("{stem.x}"); }, ThrowsMessage<Error>(HasSubstr("no field 'stem.x'")));
  EXPECT_THAT([] { fill("{options}"); },
              ThrowsMessage<Error>(HasSubstr("must be a text, got array")));
  EXPECT_THAT([] { fill("{stem[]}"); }, ThrowsMessage<Error>(HasSubstr("stem must be a list")));
  EXPECT_THAT([] { fill("{stem|after_blank}"); }, ThrowsMessage<Error>(HasSubstr("no blank")));
}

TEST(TextTemplate, RefusesWhatIsNoTemplate) {
  EXPECT_THAT([] { fill("a {stem"); },
              ThrowsMessage<UsageError>(HasSubstr("not matched by another")));
  EXPECT_THAT([] { fill("stem}"); },
              ThrowsMessage<UsageError>(HasSubstr("not matched by another")));
  EXPECT_THAT([] { fill("{}"); }, ThrowsMessage<UsageError>(HasSubstr("names no field")));
  EXPECT_THAT([] { fill("{stem|trim}"); }, ThrowsMessage<UsageError>(HasSubstr("no edit 'trim'")));
  EXPECT_THAT([] { fill("{options[].text}{options[].text}"); },
              ThrowsMessage<UsageError>(HasSubstr("more than one place names a list")));
}

TEST(TextEdits, StripWhatPythonTakesForWhiteSpace) {
  EXPECT_EQ(strip(" \t\xC2\xA0 a\xE3\x80\x80 b \xE2\x80\x89\n"), "a\xE3\x80\x80 b");
  EXPECT_EQ(strip(" \n"), "");
  EXPECT_EQ(trailing_space("a \xC2\xA0"), 3u);
  EXPECT_EQ(trailing_space("\xC3\xA0"), 0u);  // ends in a byte of U+00A0
}

TEST(TextEdits, CapitalizeMakesTheRestSmall) {
  EXPECT_EQ(capitalize("the man in the USA"), "The man in the usa");
  EXPECT_EQ(capitalize(""), "");
}

TEST(TextEdits, CleanRemovesWikiHowsMarks) {
  EXPECT_EQ(clean_wikihow(" How to [title] Do it [step] now.  Then [a\nb] [c[d] e] "),
            "How to. Do it now. Then [a\nb] e]");
}

TEST(TextEdits, CountsAsPythonDoes) {
  EXPECT_EQ(characters("h\xC3\xA9llo"), 5);
  EXPECT_EQ(words("two words"), 2);
  EXPECT_EQ(words(" a \n b "), 4);  // len(re.split(r"\s+", ...)) counts the empty ends
}

}  // namespace
}  // namespace thinwire::eval
