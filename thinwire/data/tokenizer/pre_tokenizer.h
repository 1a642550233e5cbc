// How tokenizer.json divides a text into the words that a model makes tokens of. Supported:
// Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation.
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

struct TextPiece {
  std::string text;    // never empty
  bool first = false;  // the whole text begins with it
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual std::vector<TextPiece> apply(std::vector<TextPiece> pieces) const = 0;
};

// Throws Error that names what is not supported, and where.
std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonPart& part);

}  // namespace thinwire::data
