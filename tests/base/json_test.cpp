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
