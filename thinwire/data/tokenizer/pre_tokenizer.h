// The pre-tokenizer of a tokenizer.json, which splits a text into words for the token model.
// Supported: Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit,
// Punctuation. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

struct TextPiece {
  std::string text;    // never empty
  bool first = false;  // it begins the whole text
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const = 0;
};

// Throws Error that says what is not supported and where in the file.
std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonPart& part);

}  // namespace thinwire::data
