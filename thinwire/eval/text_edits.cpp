#include <algorithm>
#include <array>

#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

constexpr std::string_view kAsciiSpaces = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
// U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
constexpr std::array<std::string_view, 19> kSpaces = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

// Bytes of the white space character that a text begins or ends with; 0: none.
size_t space_at_begin(std::string_view text) {
  if (text.empty()) return 0;
  if (kAsciiSpaces.find(text.front()) != std::string_view::npos) return 1;
  for (const std::string_view space : kSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

size_t space_at_end(std::string_view text) {
  if (text.empty()) return 0;
  if (kAsciiSpaces.find(text.back()) != std::string_view::npos) return 1;
  for (const std::string_view space : kSpaces) {
    if (text.ends_with(space)) return space.size();
  }
  return 0;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

// Each pair of brackets on one line, up to the first that closes.
std::string without_brackets(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('[');
    const size_t end = open == std::string_view::npos ? open : text.find_first_of("]\n", open);
    if (end == std::string_view::npos) break;
    const bool closed = text[end] == ']';
    out.append(text.substr(0, closed ? open : open + 1));
    text.remove_prefix(closed ? end + 1 : open + 1);
  }
  return out.append(text);
}

}  // namespace

size_t trailing_space(std::string_view text) {
  size_t bytes = 0;
  while (const size_t space = space_at_end(text.substr(0, text.size() - bytes))) bytes += space;
  return bytes;
}

std::string strip(std::string_view text) {
  text.remove_suffix(trailing_space(text));
  while (const size_t space = space_at_begin(text)) text.remove_prefix(space);
  return std::string(text);
}

std::string capitalize(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool small = out[i] >= 'a' && out[i] <= 'z';
    const bool large = out[i] >= 'A' && out[i] <= 'Z';
    if (i == 0 ? small : large) out[i] = static_cast<char>(out[i] ^ ' ');
  }
  return out;
}

std::string clean_wikihow(std::string_view text) {
  return replace_all(without_brackets(replace_all(strip(text), " [title]", ". ")), "  ", " ");
}

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

int64_t words(std::string_view text) {
  int64_t runs = 0;
  for (bool inside = false; !text.empty();) {
    const size_t space = space_at_begin(text);
    runs += space > 0 && !inside ? 1 : 0;
    inside = space > 0;
    text.remove_prefix(std::max<size_t>(space, 1));
  }
  return runs + 1;
}

}  // namespace thinwire::eval
