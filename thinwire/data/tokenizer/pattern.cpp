#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/data/tokenizer/stages.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {

struct Pattern::Regex {
  std::string expression;
  std::unique_ptr<const icu::RegexPattern> compiled;

  // Null where the expression cannot be read.
  static std::unique_ptr<const Regex> compile(std::string_view expression) {
    UErrorCode status = U_ZERO_ERROR;
    UParseError where;
    const auto text = icu::UnicodeString::fromUTF8(
        icu::StringPiece(expression.data(), static_cast<int32_t>(expression.size())));
    std::unique_ptr<const icu::RegexPattern> compiled(
        icu::RegexPattern::compile(text, 0, where, status));
    if (U_FAILURE(status) != 0) return nullptr;
    auto regex = std::make_unique<Regex>();
    regex->expression = expression;
    regex->compiled = std::move(compiled);
    return regex;
  }

  std::vector<TextRange> matches(std::string_view text) const;
};

namespace {

// ICU counts the steps of matching in units of 10,000. A text may take 41 million, about half a
// second, and 250 for each byte: the patterns of known tokenizers take at most 20.
constexpr size_t kLeastLimit = 4096;
constexpr size_t kBytesPerUnit = 40;

int32_t step_limit(std::string_view text) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::min(kLeastLimit + text.size() / kBytesPerUnit, kMost));
}

// Whether it asks for a text that a group has matched (\1, \k<name>). One step of that may compare
// all of a text, so counting steps would not limit the time.
bool refers_back(std::string_view expression) {
  for (size_t at = 0; at + 1 < expression.size(); ++at) {
    if (expression[at] != '\\') continue;
    const char escaped = expression[++at];
    if ((escaped >= '1' && escaped <= '9') || escaped == 'k') return true;
  }
  return false;
}

// Turns places in a text's UTF-16 into places in its UTF-8, in ascending order.
class Utf8Cursor {
 public:
  explicit Utf8Cursor(std::string_view text) : text_(text) {}

  size_t at(int32_t units) {
    while (units_ < units) {
      const size_t bytes = utf8_step(text_.substr(bytes_)).bytes;
      units_ += bytes == 4 ? 2 : 1;
      bytes_ += bytes;
    }
    return bytes_;
  }

 private:
  std::string_view text_;
  size_t bytes_ = 0;
  int32_t units_ = 0;
};

}  // namespace

std::vector<TextRange> Pattern::Regex::matches(std::string_view text) const {
  UErrorCode status = U_ZERO_ERROR;
  const auto utf16 = icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  const std::unique_ptr<icu::RegexMatcher> matcher(compiled->matcher(utf16, status));
  matcher->setStackLimit(0, status);
  matcher->setTimeLimit(step_limit(text), status);
  std::vector<TextRange> found;
  Utf8Cursor cursor(text);
  while (U_SUCCESS(status) != 0 && matcher->find(status) != 0) {
    const int32_t begin = matcher->start(status);
    const int32_t end = matcher->end(status);
    if (begin == end) continue;
    const size_t first = cursor.at(begin);
    found.push_back({first, cursor.at(end), true});
  }
  if (status == U_REGEX_TIME_OUT) {
    throw Error(
        fmt::format("the tokenizer's pattern \"{}\" takes too long on a text of {} bytes: it tries "
                    "too many ways to match",
                    expression, text.size()));
  }
  if (U_FAILURE(status) != 0) {
    throw Error(fmt::format("the tokenizer's pattern \"{}\" failed on a text of {} bytes: {}",
                            expression, text.size(), u_errorName(status)));
  }
  return found;
}

Pattern::Pattern(const JsonPart& part) {
  if (part.json().is_string()) {
    literal_ = part.text();
  } else if (const auto literal = part.find("String")) {
    literal_ = literal->text();
  } else {
    const JsonPart expression = part.at("Regex");
    if (refers_back(expression.text())) {
      expression.refuse("is \"{}\"; references to groups are not supported", expression.text());
    }
    regex_ = Regex::compile(expression.text());
    if (regex_ == nullptr) expression.refuse("cannot be read: \"{}\"", expression.text());
    return;
  }
  if (literal_.empty()) part.refuse("must not be empty");
}

Pattern::Pattern(std::string_view regex) : regex_(Regex::compile(regex)) {}
Pattern::~Pattern() = default;

std::vector<TextRange> Pattern::literal_matches(std::string_view text) const {
  std::vector<TextRange> found;
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    found.push_back({at, at + literal_.size(), true});
  }
  return found;
}

std::vector<TextRange> Pattern::ranges(std::string_view text) const {
  std::vector<TextRange> all;
  size_t end = 0;
  for (const TextRange& match : regex_ ? regex_->matches(text) : literal_matches(text)) {
    if (match.begin > end) all.push_back({end, match.begin, false});
    all.push_back(match);
    end = match.end;
  }
  if (end < text.size()) all.push_back({end, text.size(), false});
  return all;
}

}  // namespace thinwire::data
