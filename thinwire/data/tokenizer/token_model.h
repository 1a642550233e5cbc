// The model of a tokenizer.json, which turns words into tokens. Either BPE (Sennrich et al. 2016,
// arXiv 1508.07909), on bytes or on characters with a fallback to bytes for what no piece spells,
// or Unigram (Kudo 2018, arXiv 1804.10959). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word, which must not be empty.
  virtual void encode(std::string_view word, std::vector<int32_t>& out) const = 0;

  // All pieces by token. The ids may have gaps.
  const std::map<int32_t, std::string>& pieces() const { return pieces_; }
  // The token of a piece; -1: none.
  int32_t find(std::string_view piece) const;
  // The token of what no piece spells; -1: none.
  int32_t unknown() const { return unknown_; }

 protected:
  // Throws Error that names `place` if the piece is empty, or it or the id was added before.
  void add(const JsonPart& place, int32_t token, std::string piece);
  // For a text that no piece spells: appends the token of each byte, e.g. "<0x41>" for 0x41. If one
  // of these tokens is missing, appends nothing and returns false.
  bool append_bytes(std::string_view text, std::vector<int32_t>& out) const;

  int32_t unknown_ = -1;

 private:
  std::map<int32_t, std::string> pieces_;
  std::unordered_map<std::string_view, int32_t> tokens_;  // keys point into pieces_
};

// Each throws Error that says what is wrong or not supported and where in the file.
std::unique_ptr<const TokenModel> read_token_model(const JsonPart& part);
std::unique_ptr<const TokenModel> read_bpe(const JsonPart& part);
std::unique_ptr<const TokenModel> read_unigram(const JsonPart& part);

}  // namespace thinwire::data
