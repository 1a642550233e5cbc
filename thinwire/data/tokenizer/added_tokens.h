// The added tokens of a tokenizer.json: found in a text before anything else is done to it.
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
  bool single_word = false;  // not where a word goes on beside it
  bool strip_left = false;   // takes white space before it
  bool strip_right = false;  // and behind it
  bool normalized = false;   // looked for in the normalized text
  bool special = false;      // stands for no text
};

// A part of a text: an added token, or text that is none (token -1).
struct TokenOrText {
  int32_t token = -1;
  std::string_view text;
};

class AddedTokens {
 public:
  // The list "added_tokens"; the normalizer (null: none) is what is done to texts. Throws Error
  // that names the place of an entry without content, or of an id or a content that is there twice.
  AddedTokens(const JsonPart& list, const TextNormalizer* normalizer);

  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Parts of a text in their order: where `normalized` is false, of a text as it came, by the
  // tokens that are looked for there, else of a normalized one by the others.
  std::vector<TokenOrText> split(std::string_view text, bool normalized) const;

 private:
  // The longest token at the beginning of a text, and its bytes; -1: none.
  std::pair<int32_t, size_t> longest(std::string_view text, bool normalized) const;

  std::map<int32_t, AddedToken> tokens_;
  PrefixTree as_it_came_;
  PrefixTree normalized_;
};

}  // namespace thinwire::data
