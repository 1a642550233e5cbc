// The "decoder" of a tokenizer.json: turns each piece into the bytes it represents inside a text.
// Supported: ByteLevel, ByteFallback, Replace of a literal, Fuse, Strip of one leading space,
// Metaspace, and a Sequence of these. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

class Decoding {
 public:
  // Throws Error that says what is not supported and where in the file.
  explicit Decoding(const JsonPart& part) { read(part); }

  std::string bytes_of(std::string_view piece) const;
  // Whether the first space of a decoded text was added by encoding.
  bool leading_space() const { return leading_space_; }

 private:
  void read(const JsonPart& part);

  bool byte_characters_ = false;
  bool byte_fallback_ = false;
  bool leading_space_ = false;
  std::vector<std::pair<std::string, std::string>> replaced_;
};

}  // namespace thinwire::data
