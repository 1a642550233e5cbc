// The added tokens of a tokenizer.json, which are found before the rest of a text is tokenized.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"
#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {

// Maps texts to tokens and finds those that a longer text begins with. Thread-safe once filled.
class PrefixTree {
 public:
  // `text` must not be empty. A text that was added before keeps its token.
  void add(std::string_view text, int32_t token) {
    int32_t node = 0;
    for (const char byte : text) {
      const int32_t next = child(node, byte);
      if (next > 0) {
        node = next;
        continue;
      }
      nodes_[static_cast<size_t>(node)].children.emplace_back(byte,
                                                              static_cast<int32_t>(nodes_.size()));
      node = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    if (nodes_[static_cast<size_t>(node)].token < 0)
      nodes_[static_cast<size_t>(node)].token = token;
  }

  // Calls visit(bytes, token) for each added text that `text` begins with, shortest first. bytes:
  // the length of the added text.
  template <typename Visit>
  void prefixes(std::string_view text, const Visit& visit) const {
    int32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, text[at]);
      if (node == 0) return;
      const int32_t token = nodes_[static_cast<size_t>(node)].token;
      if (token >= 0) visit(at + 1, token);
    }
  }

 private:
  struct Node {
    std::vector<std::pair<char, int32_t>> children;
    int32_t token = -1;
  };

  // The child node for `byte`; 0: none.
  int32_t child(int32_t node, char byte) const {
    for (const auto& [label, next] : nodes_[static_cast<size_t>(node)].children) {
      if (label == byte) return next;
    }
    return 0;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

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
