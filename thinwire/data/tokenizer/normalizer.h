// The normalizer of a tokenizer.json, applied to a text before it is split into words. Supported:
// Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // Input and output are valid UTF-8.
  virtual std::string apply(std::string text) const = 0;
};

// Throws Error that says what is not supported and where in the file.
std::unique_ptr<const TextNormalizer> read_normalizer(const JsonPart& part);

}  // namespace thinwire::data
