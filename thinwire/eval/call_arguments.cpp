#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/eval/function_plan.h"
#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

constexpr int kDeepest = 32;
constexpr double kExactIntegers = 0x1p53;

// A part of the arguments, normalized. In its text `$` alone is a reference, and so is `\$` between
// quotes, where other characters after a backslash stand for themselves.
struct Part {
  std::string text;
  std::vector<int> references;

  void append(const Part& other) {
    text += other.text;
    references.insert(references.end(), other.references.begin(), other.references.end());
  }
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Reference {
  int number = 0;
  size_t length = 0;  // of "$12" or "${12}"
};

// What is at the beginning of a text. Numbers of more than 9 digits are none.
std::optional<Reference> reference_at(std::string_view text) {
  if (!text.starts_with('$')) return std::nullopt;
  const bool braces = text.substr(1).starts_with('{');
  const size_t first = braces ? 2 : 1;
  size_t end = first;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == first || end - first > 9) return std::nullopt;
  if (braces && (end == text.size() || text[end] != '}')) return std::nullopt;
  Reference found;
  std::from_chars(text.data() + first, text.data() + end, found.number);
  found.length = end + (braces ? 1 : 0);
  return found;
}

// "60" for 60, 60.0 and 6e1; nothing for what is not a number.
std::optional<std::string> number_text(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative || text.starts_with('+') ? 1 : 0);
  if (digits.empty() || !(is_digit(digits.front()) || digits.front() == '.')) return std::nullopt;
  const std::string sign = negative ? "-" : "";
  if (std::ranges::all_of(digits, is_digit)) {
    const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
    digits.remove_prefix(zeros);
    return digits == "0" ? "0" : sign + std::string(digits);
  }
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  if (value == 0) return "0";
  const bool integer = value == std::floor(value) && value < kExactIntegers;
  return sign +
         (integer ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value));
}

std::optional<std::string> constant_text(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kConstants = {
      {{"True", "true"},
       {"true", "true"},
       {"False", "false"},
       {"false", "false"},
       {"None", "none"},
       {"null", "none"}}};
  for (const auto& [name, text] : kConstants) {
    if (word == name) return text;
  }
  return number_text(word);
}

// Length of the escapes of this kind ("\u", 4 digits) that follow each other at the beginning.
size_t code_escapes(std::string_view text, std::string_view kind, size_t digits) {
  size_t length = 0;
  while (text.substr(length).starts_with(kind)) {
    const std::string_view code = text.substr(length + kind.size(), digits);
    if (code.size() < digits || code.find_first_not_of("0123456789abcdefABCDEF") != code.npos)
      break;
    length += kind.size() + digits;
  }
  return length;
}

// Appends what an escape at the beginning of `text` means and returns its length. As in Python,
// a backslash that begins no escape is itself.
size_t append_escape(std::string_view text, std::string& out) {
  constexpr std::string_view kLetters = "ntr\\'\"abfv";
  constexpr std::string_view kMeanings = "\n\t\r\\'\"\a\b\f\v";
  const size_t letter = text.size() < 2 ? kLetters.npos : kLetters.find(text[1]);
  if (letter != kLetters.npos) {
    out += kMeanings[letter];
    return 2;
  }
  const size_t bytes = code_escapes(text, "\\x", 2), units = code_escapes(text, "\\u", 4);
  const std::string json = bytes > 0 ? fmt::format("\"\\u00{}\"", text.substr(2, 2))
                                     : fmt::format("\"{}\"", text.substr(0, units));
  const auto read = try_parse_json<nlohmann::json>(bytes + units > 0 ? json : "");
  if (!read.is_string()) {  // no escape, or half of a surrogate pair
    out += '\\';
    return 1;
  }
  out += read.get<std::string>();
  return bytes > 0 ? 4 : units;
}

class ArgumentReader {
 public:
  ArgumentReader(std::string_view line, size_t begin, const std::function<bool(int)>& is_earlier)
      : line_(line), at_(begin), is_earlier_(is_earlier) {}

  CallArguments read() {
    Part all;
    std::map<std::string, Part> keywords;
    while (!closes(')')) {
      if (const auto name = keyword()) {
        if (!keywords.emplace(*name, value(0)).second)
          fail(fmt::format("{} is given twice", *name));
      } else if (keywords.empty()) {
        all.append(value(0));
        all.text += ',';
      } else {
        fail("a positional argument follows a keyword argument");
      }
      separator(')');
    }
    for (const auto& [name, given] : keywords) {
      all.text += name + "=";
      all.append(given);
      all.text += ',';
    }
    return {std::move(all.text), std::move(all.references), at_};
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw Error(what); }

  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  std::string_view rest() const { return line_.substr(at_); }
  void skip_blanks() {
    while (is_blank(peek())) ++at_;
  }
  // What is next, for a message.
  std::string next_text() const {
    return at_ < line_.size() ? fmt::format("'{}'", line_.substr(at_, 20)) : "the line's end";
  }

  // Whether a bracket comes next, which is then read.
  bool closes(char bracket) {
    skip_blanks();
    if (at_ >= line_.size()) fail(fmt::format("a '{}' is missing", bracket));
    if (peek() != bracket) return false;
    ++at_;
    return true;
  }
  // A comma, or the bracket that ends the list, which is left.
  void separator(char bracket) {
    skip_blanks();
    if (at_ < line_.size() && peek() == ',') {
      ++at_;
    } else if (at_ >= line_.size()) {
      fail(fmt::format("a '{}' is missing", bracket));
    } else if (peek() != bracket) {
      fail(fmt::format("expected ',' or '{}' before {}", bracket, next_text()));
    }
  }

  // The name of a keyword argument, with its "=".
  std::optional<std::string> keyword() {
    if (!is_name_start(peek())) return std::nullopt;
    size_t end = at_;
    while (end < line_.size() && (is_name_start(line_[end]) || is_digit(line_[end]))) ++end;
    std::string name(line_.substr(at_, end - at_));
    while (end < line_.size() && is_blank(line_[end])) ++end;
    if (end == line_.size() || line_[end] != '=') return std::nullopt;
    at_ = end + 1;
    return name;
  }

  Part value(int depth) {
    if (depth > kDeepest) fail(fmt::format("lists are nested more than {} deep", kDeepest));
    skip_blanks();
    switch (peek()) {
      case '"':
      case '\'':
        return text_value(quoted());
      case '[':
        return list(']', depth);
      case '(':
        return list(')', depth);
      case '{':
        return dictionary(depth);
      default: {
        const std::string text = words();
        if (const auto constant = constant_text(text)) return {*constant, {}};
        return text_value(text);
      }
    }
  }

  // A list or tuple. One value in brackets, without a comma, is that value.
  Part list(char bracket, int depth) {
    ++at_;
    Part all{"[", {}}, last;
    size_t values = 0;
    bool comma = false;
    while (!closes(bracket)) {
      last = value(depth + 1);
      ++values;
      all.append(last);
      all.text += ',';
      separator(bracket);
      comma = comma || line_[at_ - 1] == ',';
    }
    if (bracket == ')' && values == 1 && !comma) return last;
    all.text += ']';
    return all;
  }

  Part dictionary(int depth) {
    ++at_;
    std::map<std::string, Part> entries;
    while (!closes('}')) {
      const std::string name = key();
      skip_blanks();
      if (peek() != ':') fail(fmt::format("expected ':' after the key {}", name));
      ++at_;
      if (!entries.emplace(name, value(depth + 1)).second) {
        fail(fmt::format("the key {} is given twice", name));
      }
      separator('}');
    }
    Part all{"{", {}};
    for (const auto& [name, given] : entries) {
      all.text += name + ":";
      all.append(given);
      all.text += ',';
    }
    all.text += '}';
    return all;
  }

  std::string key() {
    skip_blanks();
    const bool quotes = peek() == '"' || peek() == '\'';
    const std::string text = quotes ? quoted() : words(":");
    if (const auto constant = quotes ? std::nullopt : constant_text(text)) return *constant;
    return in_quotes(literal(strip(text)));
  }

  // A text in quotes, with its escapes resolved.
  std::string quoted() {
    const std::string triple(3, peek());
    const std::string quote = rest().starts_with(triple) ? triple : triple.substr(0, 1);
    at_ += quote.size();
    std::string text;
    while (!rest().starts_with(quote)) {
      if (at_ >= line_.size()) fail(fmt::format("a {} is missing", quote));
      if (peek() == '\\') {
        at_ += append_escape(rest(), text);
      } else {
        text += line_[at_++];
      }
    }
    at_ += quote.size();
    return text;
  }

  // A value without quotes: all up to the next comma or bracket, or one of `ends`.
  std::string words(std::string_view ends = "") {
    const size_t begin = at_;
    while (at_ < line_.size()) {
      if (const auto reference = reference_at(rest())) {
        at_ += reference->length;
        continue;
      }
      const char c = peek();
      if (c == ',' || c == ')' || c == ']' || c == '}' || ends.find(c) != ends.npos) break;
      if (c == '"' || c == '\'' || c == '(' || c == '[' || c == '{') {
        fail(fmt::format("expected a value without {} in it, or in quotes", next_text()));
      }
      ++at_;
    }
    std::string text = strip(line_.substr(begin, at_ - begin));
    if (text.empty()) fail(fmt::format("expected a value before {}", next_text()));
    return text;
  }

  // A text, which may have or be references.
  Part text_value(const std::string& given) const {
    const std::string stripped = strip(given);
    std::string_view text = stripped;
    if (const auto whole = reference_at(text); whole && whole->length == text.size()) {
      if (!is_earlier_(whole->number)) {
        fail(fmt::format("{} refers to no earlier call", text));
      }
      return {"$", {whole->number}};
    }
    Part part;
    while (!text.empty()) {
      const auto reference = reference_at(text);
      if (reference && is_earlier_(reference->number)) {
        part.append({"\\$", {reference->number}});
        text.remove_prefix(reference->length);
      } else {
        part.text += literal(text.substr(0, 1));
        text.remove_prefix(1);
      }
    }
    part.text = in_quotes(part.text);
    return part;
  }

  static std::string literal(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  }
  static std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

  std::string_view line_;
  size_t at_;
  const std::function<bool(int)>& is_earlier_;
};

}  // namespace

CallArguments read_arguments(std::string_view line, size_t begin,
                             const std::function<bool(int)>& is_earlier) {
  return ArgumentReader(line, begin, is_earlier).read();
}

}  // namespace thinwire::eval
