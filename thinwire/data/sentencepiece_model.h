// The content of a SentencePiece model file, read without the SentencePiece library: the library
// turns tokens into text but does not expose how it joins pieces or normalizes text. Source: the
// file's schema, sentencepiece_model.proto of SentencePiece 0.1.97.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

enum class PieceKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceKind kind = PieceKind::kNormal;
  };
  enum class Type : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces;  // indexed by token
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool space_suffix = false;  // a space ends the piece before it instead of beginning the next
  std::string normalization;  // the compiled character map; empty: none
  bool leading_space = true;  // one is added before the text
  bool single_spaces = true;  // collapses runs of spaces, trims both ends
  bool mark_spaces = true;    // spaces are written as U+2581
  std::string rules;          // of a stored vocabulary (below); empty: none
};

// The field of a model's file that holds the rules.
inline constexpr uint64_t kSentencePieceRulesField = 1000;

// Accepts any bytes. Throws Error with `origin` in its message if they are not a valid model.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin);

// What the files beside a tokenizer.model of a Hugging Face folder say about it, and SentencePiece
// does not know: tokens that were added to its pieces, which tokens begin and end a text, and
// before which parts of a text encoding puts a space.
//
// A stored vocabulary keeps this in the model's file, so that one file stays complete: as JSON in a
// field at its end, number 1000 of the schema, which is among those left to extensions, so that
// SentencePiece skips it.

// The rules as a JSON object:
//   "added_tokens"            as in a tokenizer.json
//   "bos_token", "eos_token"  names
//   "begin"                   the name of the token before a text; "": none
//   "space"                   encoding puts a space before "every" part of a text between added
//                             tokens, only the "first" of the text, or "none"
// As transformers reads tokenizer_config.json (bos_token, eos_token, add_bos_token, legacy,
// add_prefix_space, added_tokens_decoder), special_tokens_map.json, added_tokens.json and
// config.json (bos_token_id). Null if they say nothing else than the model itself. Throws Error
// that names the file and what is wrong in it. `model` has no rules.
nlohmann::json read_sentencepiece_rules(const Vocabulary& model);

// The file of a stored vocabulary: the model's, with its rules at the end.
std::string with_sentencepiece_rules(std::string_view model, const nlohmann::json& rules);
// Its rules; an empty object if there are none. Throws Error that names `file` if they are damaged.
nlohmann::json sentencepiece_rules_in(std::string_view stored, const std::string& file);
// The model's file as it came.
std::string without_sentencepiece_rules(std::string_view stored);

// A SentencePiece model as a vocabulary. Its control pieces and added tokens
// (below) are found in a text first, as transformers finds them; SentencePiece
// itself spells "</s>" in letters.

// `content` is the content of `file`, with its rules if it is a stored vocabulary; otherwise they
// are read from the files beside it. Throws Error that names the file and what is wrong.
std::unique_ptr<Vocabulary> read_sentencepiece_vocabulary(const fs::path& file,
                                                          const std::string& content);

}  // namespace thinwire::data
