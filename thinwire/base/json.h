// Reads and prints JSON. The parser and the printer of nlohmann's library are compiled once, in
// json.cpp; each source that called them itself would take two seconds longer. Sources that look
// into values include <nlohmann/json.hpp> in addition. Any thread.
//
// `Value` is nlohmann::json, whose objects are sorted by key, or nlohmann::ordered_json, whose
// objects keep the order of the text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace thinwire {

// The most lists and objects within each other that are read. Copying, comparing and printing a
// value call themselves once a level, so a hundred thousand brackets would exhaust the stack.
inline constexpr int kMaxJsonDepth = 500;

// Whether lists and objects lie more than `levels` deep within each other.
bool is_deep_json(std::string_view text, int levels = kMaxJsonDepth);

// The value of a text in UTF-8. Throws nlohmann::json::parse_error.
template <typename Value>
Value parse_json(std::string_view text);

// The same, but a text that is not JSON, or too deep, gives a value that is_discarded().
template <typename Value>
Value try_parse_json(std::string_view text);

// Why try_parse_json() gave not the value wanted, to follow "it is": "nested more than 500 levels
// deep", or `otherwise`.
std::string json_fault(std::string_view text, std::string_view otherwise = "not a JSON object");

struct JsonStyle {
  int indent = -1;               // spaces; -1: everything in one line
  bool ascii = false;            // \u1234 for all other characters
  bool replace_invalid = false;  // U+FFFD for bytes that are not UTF-8
};

// Throws nlohmann::json::type_error at bytes that are not UTF-8, unless they are replaced.
template <typename Value>
std::string print_json(const Value& value, JsonStyle style = {});

// Base64 (RFC 4648, section 4) with padding.

std::string encode_base64(std::string_view bytes);
// Nothing if the text is not base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace thinwire
