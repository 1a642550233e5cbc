#include "thinwire/base/json.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>

namespace thinwire {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

std::string too_deep() { return fmt::format("nested more than {} levels deep", kMaxJsonDepth); }

}  // namespace

// Looks at brackets alone: what they enclose is for the parser to judge.
bool is_deep_json(std::string_view text, int levels) {
  int open = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++open > levels) return true;
    } else if (c == ']' || c == '}') {
      --open;
    }
  }
  return false;
}

template <typename Value>
Value parse_json(std::string_view text) {
  if (is_deep_json(text)) throw json::parse_error::create(101, 0, too_deep(), nullptr);
  return Value::parse(text);
}

template <typename Value>
Value try_parse_json(std::string_view text) {
  if (is_deep_json(text)) return Value(Value::value_t::discarded);
  return Value::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_fault(std::string_view text, std::string_view otherwise) {
  return is_deep_json(text) ? too_deep() : std::string(otherwise);
}

template <typename Value>
std::string print_json(const Value& value, JsonStyle style) {
  using OnInvalid = Value::error_handler_t;
  return value.dump(style.indent, ' ', style.ascii,
                    style.replace_invalid ? OnInvalid::replace : OnInvalid::strict);
}

template json parse_json<json>(std::string_view text);
template ordered_json parse_json<ordered_json>(std::string_view text);
template json try_parse_json<json>(std::string_view text);
template ordered_json try_parse_json<ordered_json>(std::string_view text);
template std::string print_json<json>(const json& value, JsonStyle style);
template std::string print_json<ordered_json>(const ordered_json& value, JsonStyle style);

namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');  // and a NUL behind it
  EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(bytes_of(bytes), bytes_of(text), static_cast<int>(text.size()));
  if (size < 0 || static_cast<size_t>(size) != bytes.size() || text.size() % 4 != 0) {
    return std::nullopt;
  }
  for (; text.ends_with('='); text.remove_suffix(1)) bytes.pop_back();
  return bytes;
}

}  // namespace thinwire
