// The added tokens of a tokenizer.json, which are found before the rest of a text is tokenized.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"
#include "thinwire/data/tokenizer/normalizer.h"
#include "thinwire/data/tokenizer/prefix_tree.h"

namespace thinwire::data {

struct AddedToken {
  std::string content;
  bool single_word = false;  // does not match directly next to a word character
  bool strip_left = false;   // includes white space before it
  bool strip_right = false;  // includes white space after it
  bool normalized = false;   // searched for in the normalized text
  bool special = false;      // represents no text
};

// A part of a text: an added token, or other text (token -1).
struct TokenOrText {
  int32_t token = -1;
  std::string_view text;
};

class AddedTokens {
 public:
  // list: the file's "added_tokens". normalizer: the one applied to texts; null: none. Throws Error
  // with the entry's place in the file if its content is missing or empty, or its id or content
  // occurs twice.
  AddedTokens(const JsonPart& list, const TextNormalizer* normalizer);

  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Splits a text into parts, in order. If `normalized` is false, the text must be the original and
  // is searched for the tokens with AddedToken::normalized false; if true, the text must be
  // normalized and is searched for the other tokens.
  std::vector<TokenOrText> split(std::string_view text, bool normalized) const;

 private:
  // The longest token at the beginning of a text, and its length in bytes. Token -1: none.
  std::pair<int32_t, size_t> longest(std::string_view text, bool normalized) const;

  std::map<int32_t, AddedToken> tokens_;
  PrefixTree unnormalized_;
  PrefixTree normalized_;
};

}  // namespace thinwire::data
