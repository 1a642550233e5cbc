#include "thinwire/data/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace thinwire::data {
namespace {

std::string repaired(std::string_view text, uint64_t* count = nullptr) {
  std::string out;
  uint64_t replaced = 0;
  const size_t left = append_repaired(text, out, replaced);
  if (left > 0) out += "<" + std::to_string(left) + " left>";
  if (count != nullptr) *count = replaced;
  return out;
}

TEST(Utf8, ValidTextStaysAsItIs) {
  const std::string text = "plain, \u00e9, \u20ac, \U0001F600, \uFFFF";
  EXPECT_EQ(valid_utf8_prefix(text), text.size());
  EXPECT_EQ(repaired(text), text);
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndNumbersBeyondUnicode) {
  for (const char* bad : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5",
                          "\x80", "\xF0\x8F\x80\x80"}) {
    EXPECT_EQ(utf8_step(bad).kind, Utf8Kind::kInvalid) << bad;
    EXPECT_EQ(valid_utf8_prefix(bad), 0u);
  }
}

TEST(Utf8, ReplacesEachLongestInvalidPieceByOneCharacter) {
  uint64_t count = 0;
  EXPECT_EQ(repaired("a\xE9 b\xF0\x9F\x98z\xFF\xFE", &count), "a\uFFFD b\uFFFDz\uFFFD\uFFFD");
  EXPECT_EQ(count, 4u);
}

TEST(Utf8, HoldsBackAnIncompleteCharacterAtTheEnd) {
  EXPECT_EQ(repaired("ab\xE2\x82"), "ab<2 left>");
}

RC_GTEST_PROP(Utf8, RepairedTextIsAlwaysValid, (const std::string& bytes)) {
  std::string out;
  uint64_t replaced = 0;
  const size_t left = append_repaired(bytes, out, replaced);
  RC_ASSERT(valid_utf8_prefix(out) == out.size());
  RC_ASSERT(left < 4u);
  if (replaced == 0) RC_ASSERT(out + bytes.substr(bytes.size() - left) == bytes);
}

}  // namespace
}  // namespace thinwire::data
