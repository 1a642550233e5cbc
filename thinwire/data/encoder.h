// Encodes much text fast, with the same result as Vocabulary::encode: words repeat, so their tokens
// are remembered, and a long document never goes through SentencePiece in one piece (whose memory
// grows by a large factor of the text).
//
// Why the result is the same: where no piece of the vocabulary has a space after another character,
// no merge (BPE) and no path (unigram) crosses the border before a run of spaces, so the text may
// be cut there; the cut-off space is the one that encoding puts before a text. Vocabularies without
// that property are encoded in one go. Not thread-safe: one for each thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

class Encoder {
 public:
  // `vocabulary` must outlive this.
  explicit Encoder(const Vocabulary& vocabulary);

  // Appends the tokens of a text.
  void encode(std::string_view text, std::vector<int32_t>& out);

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& out);

  const Vocabulary& vocabulary_;
  bool separable_;
  std::unordered_map<std::string, std::vector<int32_t>> words_;
  std::string key_;  // reused, so that a look-up allocates nothing
};

}  // namespace thinwire::data
