// The part of a tokenizer.json that makes tokens of words: BPE (Sennrich et al. 2016, arXiv
// 1508.07909), of bytes or of characters with bytes for what it cannot spell, or Unigram (Kudo
// 2018, arXiv 1804.10959). Thread-safe.
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
  // Appends the tokens of a word that is not empty.
  virtual void encode(std::string_view word, std::vector<int32_t>& out) const = 0;

  // Every piece by its token; ids may have gaps.
  const std::map<int32_t, std::string>& pieces() const { return pieces_; }
  // The token of a piece; -1: there is none.
  int32_t find(std::string_view piece) const;

 protected:
  // Throws Error at `place` for an id or a piece that is there twice.
  void add(const JsonPart& place, int32_t token, std::string piece);
  // Appends the tokens of the bytes of a text that no piece spells, "<0x41>" for 0x41; false, and
  // nothing is appended, where one of them is missing.
  bool append_bytes(std::string_view text, std::vector<int32_t>& out) const;

 private:
  std::map<int32_t, std::string> pieces_;
  std::unordered_map<std::string_view, int32_t> tokens_;  // views of pieces_
};

// Throws Error that names what is wrong or not supported, and where.
std::unique_ptr<const TokenModel> read_token_model(const JsonPart& part);
std::unique_ptr<const TokenModel> read_bpe(const JsonPart& part);
std::unique_ptr<const TokenModel> read_unigram(const JsonPart& part);

}  // namespace thinwire::data
