// What a SentencePiece model file says, read without its library, which tells text from tokens but
// neither how pieces are put together nor what is done to text before. Source: the file's schema,
// sentencepiece_model.proto of SentencePiece 0.1.97.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

  std::vector<Piece> pieces;  // by token
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool space_behind = false;  // a word's space is the end of its last piece
  std::string normalization;  // the compiled map of characters; empty: none
  bool leading_space = true;  // text gets one
  bool single_spaces = true;  // runs of spaces become one, and those at both ends go
  bool mark_spaces = true;    // as U+2581
};

// Any bytes give a model or an Error, whose message names `origin`.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin);

}  // namespace thinwire::data
