// A tokenizer.json, read as the tokenizers package (0.19 to 0.23) reads it: turns text into tokens
// with the same ids, and tokens back into bytes. Added tokens, including special ones, are found in
// a text first. Tokens that a post-processor would put around a text are not added by encode();
// begin() returns the one before the text.
//
//   text → added tokens → normalizer → added tokens of normalized text → pre-tokenizer → model
//
// Everything in the file is either supported or rejected by name, except truncation and padding,
// which only concern batches and are ignored. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/data/tokenizer/added_tokens.h"
#include "thinwire/data/tokenizer/json_part.h"
#include "thinwire/data/tokenizer/stages.h"

namespace thinwire::data {

class Tokenizer {
 public:
  // file: the whole file. Throws Error that says what is wrong or not supported, and where.
  explicit Tokenizer(const JsonPart& file);

  // Invalid UTF-8 is replaced by U+FFFD.
  std::vector<int32_t> encode(std::string_view text) const;

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }  // ids are less than this
  // The text of a token in the file; empty for an id without one. `token` must be below size().
  const std::string& name(int32_t token) const { return pieces_[static_cast<size_t>(token)]; }
  int32_t find(std::string_view name) const;  // -1: none
  bool is_added(int32_t token) const { return added_->all().contains(token); }
  // The bytes a token represents inside a text; none for special tokens.
  std::string bytes_of(int32_t token) const;
  bool leading_space() const { return decoding_.leading_space(); }
  // The token that the post-processor puts before a text; -1: none.
  int32_t begin() const { return begin_; }
  // The token of what the vocabulary cannot spell; -1: none.
  int32_t unknown() const { return model_->unknown(); }

 private:
  void read_begin(const JsonPart& file);
  void encode_plain(std::string_view text, bool first, std::vector<int32_t>& out) const;

  std::unique_ptr<const TextNormalizer> normalizer_;   // null: none
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;  // null: none
  std::unique_ptr<const TokenModel> model_;
  std::optional<AddedTokens> added_;
  Decoding decoding_;
  std::vector<std::string> pieces_;  // by token, including added tokens
  int32_t begin_ = -1;
};

}  // namespace thinwire::data
