// tokenizer.json of a SentencePiece vocabulary: what the tokenizers package needs to make the same
// tokens of text as SentencePiece does, leading spaces, bytes and special pieces of any name
// included.
//
// Text gets a ▁ in front, spaces become ▁, and pieces are put together by merges (BPE) or scores
// (unigram). SentencePiece merges the pair that makes the piece of the highest score; a merge per
// way to divide a piece, ordered by the piece's score, asks for the same. Special pieces are added
// tokens, which are found in text before all else: SentencePiece itself takes "<s>" in a text for
// three characters. Format: https://huggingface.co/docs/tokenizers, versions 0.19 to 0.23.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/convert/hf_fields.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

inline constexpr const char* kTokenizerJson = "tokenizer.json";

// begin: the token that is put before every text; -1: none. further: added tokens beyond the
// model's pieces, as the file lists them. Nothing where tokenizer.json cannot say what the model
// does: models of whole words or characters, spaces behind words.
std::optional<std::string> print_tokenizer_json(const data::Vocabulary& vocabulary, int32_t begin,
                                                const HfJson& further);

// The part of it that puts `begin` before a text; null for -1.
HfJson print_post_processor(const data::Vocabulary& vocabulary, int32_t begin);

}  // namespace thinwire::convert
