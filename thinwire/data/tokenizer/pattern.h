// What a tokenizer looks for in a text: a literal or a regular expression. Expressions are those of
// tokenizer.json, which are written for Oniguruma; ICU reads the parts that tokenizers use alike:
// Unicode properties, look-ahead, possessive and lazy repetition, (?i:...). Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool matches = false;
};

class Pattern {
 public:
  // {"String": "..."}, {"Regex": "..."}, or the literal alone. Throws Error that names the place
  // for an expression that cannot be read.
  explicit Pattern(const JsonPart& part);
  // A regular expression of our own.
  explicit Pattern(std::string_view regex);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // What matches and what lies between, none empty, in the order of the text, which they cover. The
  // text is valid UTF-8.
  std::vector<TextRange> ranges(std::string_view text) const;

 private:
  struct Regex;

  std::vector<TextRange> literal_matches(std::string_view text) const;

  std::string literal_;  // where there is no expression
  std::unique_ptr<const Regex> regex_;
};

}  // namespace thinwire::data
