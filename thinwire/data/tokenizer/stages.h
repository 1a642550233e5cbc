// The stages of a tokenizer of tokenizer.json, in the order in which a text goes through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "thinwire/data/tokenizer/json_part.h"

namespace thinwire::data {

// A literal or a regular expression that a tokenizer searches for in a text. The expressions in
// tokenizer.json are written for Oniguruma. ICU gives the same meaning to the syntax that
// tokenizers use: Unicode properties, look-ahead, possessive and lazy repetition, (?i:...).
// Thread-safe.

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool matches = false;
};

class Pattern {
 public:
  // {"String": "..."}, {"Regex": "..."}, or the literal alone. Throws Error with the place in the
  // file if the expression cannot be parsed or refers to a group, or the literal is empty.
  explicit Pattern(const JsonPart& part);
  // A regular expression from our code, not from a file; it must be valid.
  explicit Pattern(std::string_view regex);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // The matches and the ranges between them, in order. They cover the whole text and none is empty.
  // The text must be valid UTF-8. Takes time in proportion to it. Throws Error that names the
  // regular expression if that tries too many ways to match, as "(a+)+$" does.
  std::vector<TextRange> ranges(std::string_view text) const;

 private:
  struct Regex;

  std::vector<TextRange> literal_matches(std::string_view text) const;

  std::string literal_;  // used if regex_ is null
  std::unique_ptr<const Regex> regex_;
};

// The normalizer of a tokenizer.json, applied to a text before it is split into words. Supported:
// Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend. Thread-safe.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  // Input and output are valid UTF-8.
  virtual std::string apply(std::string text) const = 0;
};

// Throws Error that says what is not supported and where in the file.
std::unique_ptr<const TextNormalizer> read_normalizer(const JsonPart& part);

// The characters that represent bytes in byte-level vocabularies (GPT-2): a byte that is printable
// in Latin-1 is its own character; the others are numbered in order from U+0100.

// The character for a byte, in UTF-8.
std::string_view byte_character(uint8_t byte);

std::string to_byte_characters(std::string_view bytes);

// The inverse. A text that contains any other character is returned unchanged.
std::string from_byte_characters(std::string_view text);

// The pre-tokenizer of a tokenizer.json, which splits a text into words for the token model.
// Supported: Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit,
// Punctuation. Thread-safe.
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

// The model of a tokenizer.json, which turns words into tokens. Either BPE (Sennrich et al. 2016,
// arXiv 1508.07909), on bytes or on characters with a fallback to bytes for what no piece spells,
// or Unigram (Kudo 2018, arXiv 1804.10959). Thread-safe.
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

// The "decoder" of a tokenizer.json: turns each piece into the bytes it represents inside a text.
// Supported: ByteLevel, ByteFallback, Replace of a literal, Fuse, Strip of one leading space,
// Metaspace, and a Sequence of these. Thread-safe.
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
