// The content of a SentencePiece model file, read without the SentencePiece library: the library
// turns tokens into text but does not expose how it joins pieces or normalizes text. Source: the
// file's schema, sentencepiece_model.proto of SentencePiece 0.1.97.
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

  std::vector<Piece> pieces;  // indexed by token
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool space_suffix = false;  // a space ends the piece before it instead of beginning the next
  std::string normalization;  // the compiled character map; empty: none
  bool leading_space = true;  // one is added before the text
  bool single_spaces = true;  // collapses runs of spaces, trims both ends
  bool mark_spaces = true;    // spaces are written as U+2581
};

// Accepts any bytes. Throws Error with `origin` in its message if they are not a valid model.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin);

}  // namespace thinwire::data
