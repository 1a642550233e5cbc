#include "thinwire/config/toml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "thinwire/base/error.h"

namespace thinwire::config {
namespace {

// toml++ has such a limit for values, but none for keys: a.b.c = 1 is three tables.
constexpr int kMaxKeyParts = 250;

// Where a string that begins here ends; at the text's end if it does not.
size_t after_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const size_t length = three == R"(""")" || three == "'''" ? 3 : 1;
  const std::string_view closing = text.substr(at, length);
  for (at += length; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text.substr(at, length) == closing) {
      return at + length;
    }
  }
  return text.size();
}

// Where a key has too many parts; npos if none has.
size_t find_deep_key(std::string_view text) {
  int parts = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = after_string(text, at) - 1;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      parts = 1;
    } else if (c == '.') {
      if (++parts > kMaxKeyParts) return at;
    } else if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
               std::string_view("_- \t").find(c) == std::string_view::npos) {
      parts = 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view origin) {
  if (const size_t at = find_deep_key(text); at != std::string_view::npos) {
    const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
    throw UsageError(
        fmt::format("{}:{}: a key has more than {} parts", origin, line, kMaxKeyParts));
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    throw UsageError(
        origin.ends_with(".toml")
            ? fmt::format("{}:{}: {}", origin, line, error.description())
            : fmt::format("{} is no TOML file (line {}: {})", origin, line, error.description()));
  }
}

}  // namespace thinwire::config
