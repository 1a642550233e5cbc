// Writes a SentencePiece vocabulary as tokenizer.json, so that the tokenizers package turns text
// into the same tokens as SentencePiece does, including leading spaces, bytes and special pieces of
// any name.
//
// Text is prefixed with ▁, spaces become ▁, and pieces are formed by merges (BPE) or scores
// (unigram). SentencePiece merges the pair that forms the piece with the highest score. Listing one
// merge for each way to split a piece, ordered by the piece's score, has the same effect. Special
// pieces become added tokens, which are matched in the text before anything else; SentencePiece
// itself reads "<s>" in a text as three characters. Format: https://huggingface.co/docs/tokenizers,
// versions 0.19 to 0.23.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/convert/hf_fields.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

inline constexpr const char* kTokenizerJson = "tokenizer.json";

// begin: the token to put before every text; -1: none. further: added tokens beyond the model's
// pieces, in the file's format. Returns nothing if tokenizer.json cannot express the model: models
// of whole words or characters, or with spaces after words.
std::optional<std::string> print_tokenizer_json(const data::Vocabulary& vocabulary, int32_t begin,
                                                const HfJson& further);

// The part of tokenizer.json that puts `begin` before a text; null for -1.
HfJson print_post_processor(const data::Vocabulary& vocabulary, int32_t begin);

}  // namespace thinwire::convert
