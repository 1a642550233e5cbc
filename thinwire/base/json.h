// Reads and prints JSON. The parser and the printer of nlohmann's library are compiled once, in
// json.cpp; each source that called them itself would take two seconds longer. Sources that look
// into values include <nlohmann/json.hpp> in addition. Any thread.
//
// `Value` is nlohmann::json, whose objects are sorted by key, or nlohmann::ordered_json, whose
// objects keep the order of the text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace thinwire {

// The value of a text in UTF-8. Throws nlohmann::json::parse_error.
template <typename Value>
Value parse_json(std::string_view text);

// The same, but a text that is not JSON gives a value that is_discarded().
template <typename Value>
Value try_parse_json(std::string_view text);

struct JsonStyle {
  int indent = -1;               // spaces; -1: everything in one line
  bool ascii = false;            // \u1234 for all other characters
  bool replace_invalid = false;  // U+FFFD for bytes that are not UTF-8
};

// Throws nlohmann::json::type_error at bytes that are not UTF-8, unless they are replaced.
template <typename Value>
std::string print_json(const Value& value, JsonStyle style = {});

}  // namespace thinwire
