// Encodes large amounts of text fast, with the same result as Vocabulary::encode. Words repeat, so
// their tokens are cached, and a long document never goes through SentencePiece in one piece, which
// would need many times the text's size in memory.
//
// Why the result is the same: if no piece of the vocabulary has a space after another character, no
// merge (BPE) and no path (unigram) crosses the boundary before a run of spaces, so the text may be
// cut there. The first space after the cut is dropped, because encoding puts one before a text.
// With vocabularies that lack this property, parts of texts (Vocabulary::parts) are encoded whole.
// Not thread-safe: use one for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "thinwire/data/records.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

class Encoder {
 public:
  // `vocabulary` must outlive this.
  explicit Encoder(const Vocabulary& vocabulary);

  // Appends the tokens of a text.
  void encode(std::string_view text, std::vector<int32_t>& out);
  // Appends the tokens of a text, and for each whether it has a part in one of these ranges, which
  // are in order.
  void encode(std::string_view text, const std::vector<TextPart>& ranges, std::vector<int32_t>& out,
              std::vector<bool>& inside);

 private:
  // Tokens of `whole`, the tokens of a text, that belong to its first `end` bytes; counts the one
  // that lies across the end if `across`.
  size_t tokens_before(std::string_view text, size_t end, std::span<const int32_t> whole,
                       bool across);
  void encode_part(std::string_view text, bool space, std::vector<int32_t>& out);
  void encode_word(std::string_view word, std::vector<int32_t>& out);

  const Vocabulary& vocabulary_;
  bool separable_;
  std::unordered_map<std::string, std::vector<int32_t>> words_;
  std::string key_;  // reused, so that a look-up allocates nothing
};

}  // namespace thinwire::data
