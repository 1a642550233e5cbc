#include "thinwire/base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace thinwire {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kText = R"({"b": [1, 2.5], "a": "é"})";

TEST(ParseJson, SortsKeysOrKeepsTheirOrder) {
  EXPECT_EQ(print_json(parse_json<json>(kText)), R"({"a":"é","b":[1,2.5]})");
  EXPECT_EQ(print_json(parse_json<ordered_json>(kText)), R"({"b":[1,2.5],"a":"é"})");
}

TEST(ParseJson, ThrowsAtTextThatIsNotJson) {
  EXPECT_THROW(parse_json<json>("{"), json::parse_error);
  EXPECT_THROW(parse_json<ordered_json>(""), json::parse_error);
}

TEST(TryParseJson, GivesADiscardedValueForTextThatIsNotJson) {
  EXPECT_TRUE(try_parse_json<json>("{").is_discarded());
  EXPECT_TRUE(try_parse_json<ordered_json>("[1] 2").is_discarded());
  EXPECT_EQ(try_parse_json<json>(" 7 "), 7);
}

TEST(ParseJson, RefusesTextsThatAreNestedTooDeeply) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '[') +
           std::string(static_cast<size_t>(levels), ']');
  };
  for (const int levels : {kMaxJsonDepth + 1, 100'000}) {
    EXPECT_THROW(parse_json<json>(nested(levels)), json::parse_error);
    EXPECT_THROW(parse_json<ordered_json>(nested(levels)), json::parse_error);
    EXPECT_TRUE(try_parse_json<json>(nested(levels)).is_discarded());
    EXPECT_TRUE(try_parse_json<ordered_json>(nested(levels)).is_discarded());
    EXPECT_EQ(json_fault(nested(levels)), "nested more than 500 levels deep");
  }
  EXPECT_EQ(print_json(parse_json<json>(nested(kMaxJsonDepth))), nested(kMaxJsonDepth));
  EXPECT_EQ(json_fault("7"), "not a JSON object");
}

TEST(ParseJson, BracketsInTextsAreNoLevels) {
  const std::string brackets(1000, '[');
  for (const std::string& text : {brackets, "\\\"" + brackets, brackets + "\\\\"}) {
    EXPECT_TRUE(parse_json<json>("[\"" + text + "\", {}]").is_array());
  }
  std::string wide = "[[]";
  for (int i = 0; i < 1000; ++i) wide += ",{}";
  EXPECT_EQ(parse_json<json>(wide + "]").size(), 1001u);
}

TEST(PrintJson, Indents) {
  EXPECT_EQ(print_json(json{{"a", {1}}}, {.indent = 2}), "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(PrintJson, EscapesWhatIsNotAsciiIfAsked) {
  EXPECT_EQ(print_json(json("é")), "\"é\"");
  EXPECT_EQ(print_json(json("é"), {.ascii = true}), R"("\u00e9")");
}

TEST(PrintJson, RefusesInvalidUtf8UnlessItIsReplaced) {
  const json invalid = std::string("a\xff");
  EXPECT_THROW(print_json(invalid), json::type_error);
  EXPECT_EQ(print_json(invalid, {.replace_invalid = true}), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace thinwire
