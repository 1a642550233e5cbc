// A literal or a regular expression that a tokenizer searches for in a text. The expressions in
// tokenizer.json are written for Oniguruma. ICU gives the same meaning to the syntax that
// tokenizers use: Unicode properties, look-ahead, possessive and lazy repetition, (?i:...).
// Thread-safe.
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
  // {"String": "..."}, {"Regex": "..."}, or the literal alone. Throws Error with the place in the
  // file if the expression cannot be parsed or refers to a group, or the literal is empty.
  explicit Pattern(const JsonPart& part);
  // A regular expression from our code, not from a file; it must be valid.
  explicit Pattern(std::string_view regex);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // The matches and the ranges between them, in order. They cover the whole text and none is empty.
  // The text must be valid UTF-8. Takes time in proportion to it. Throws Error that names the
  // regular expression if that tries too many ways to match, as "(a+)+$" does.
  std::vector<TextRange> ranges(std::string_view text) const;

 private:
  struct Regex;

  std::vector<TextRange> literal_matches(std::string_view text) const;

  std::string literal_;  // used if regex_ is null
  std::unique_ptr<const Regex> regex_;
};

}  // namespace thinwire::data
