// What tokenizer.json does to a text before it is divided. Supported: Sequence, NFC, NFD, NFKC,
// NFKD, Lowercase, Strip, StripAccents, Replace, Prepend. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // Valid UTF-8 in and out.
  virtual std::string apply(std::string text) const = 0;
};

// Throws Error that names what is not supported, and where.
std::unique_ptr<const TextNormalizer> read_normalizer(const JsonPart& part);

}  // namespace thinwire::data
