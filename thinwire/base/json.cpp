#include "thinwire/base/json.h"

#include <nlohmann/json.hpp>

namespace thinwire {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Value>
Value parse_json(std::string_view text) {
  return Value::parse(text);
}

template <typename Value>
Value try_parse_json(std::string_view text) {
  return Value::parse(text, nullptr, /*allow_exceptions=*/false);
}

template <typename Value>
std::string print_json(const Value& value, JsonStyle style) {
  using OnInvalid = typename Value::error_handler_t;
  return value.dump(style.indent, ' ', style.ascii,
                    style.replace_invalid ? OnInvalid::replace : OnInvalid::strict);
}

template json parse_json<json>(std::string_view text);
template ordered_json parse_json<ordered_json>(std::string_view text);
template json try_parse_json<json>(std::string_view text);
template ordered_json try_parse_json<ordered_json>(std::string_view text);
template std::string print_json<json>(const json& value, JsonStyle style);
template std::string print_json<ordered_json>(const ordered_json& value, JsonStyle style);

}  // namespace thinwire
