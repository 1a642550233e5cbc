// The tokenizer of a Hugging Face folder: what its files say about the token with which texts
// begin, and the files of an export.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/convert/hf_fields.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kTokenizerModel = "tokenizer.model";

// begin: the token with which texts begin; -1: none. It is written as bos_token, whatever the
// vocabulary calls it, so that transformers puts it there.
HfJson print_tokenizer_config(const data::Vocabulary& vocabulary, int64_t sequence, int32_t begin);

// The token with which texts begin, from the tokenizer_config.json of an imported model's
// checkpoint: none (-1) if that has add_bos_token = false, else its bos_token, else the
// vocabulary's BOS. Throws Error naming the file if it is damaged.
int32_t read_begin_token(const fs::path& checkpoint, const data::Vocabulary& vocabulary);
// The same from the files of a Hugging Face folder, as transformers reads them: what the
// post-processor of a tokenizer.json says, whatever tokenizer_config.json has; of other
// vocabularies as above, but without a bos_token it is bos_token_id of config.json if that is the
// vocabulary's BOS or EOS.
int32_t origin_begin_token(const HfOrigin& origin, const data::Vocabulary& vocabulary);
// What the user should know of the tokenizer in a Hugging Face folder: where versions of
// transformers disagree about it, which of them counts here.
std::vector<std::string> tokenizer_notes(const HfOrigin& origin,
                                         const data::Vocabulary& vocabulary);

// How the texts of an exported model begin and how long they may be.
struct TokenizerUse {
  int32_t begin = -1;  // as above
  int64_t sequence = 0;
};

// Writes the tokenizer of a SentencePiece vocabulary into a folder: tokenizer.model, tokenizer.json
// and tokenizer_config.json. Where the vocabulary came with files of its own (`origin`), these are
// written, changed only where `now` is not `before`. Returns what the user should know.
std::vector<std::string> write_tokenizer(const fs::path& dir, const data::Vocabulary& vocabulary,
                                         const HfOrigin& origin, const TokenizerUse& before,
                                         const TokenizerUse& now);

// Writes a SentencePiece vocabulary as tokenizer.json, so that the tokenizers package turns text
// into the same tokens as SentencePiece does, including leading spaces, bytes and special pieces of
// any name.
//
// Text is prefixed with ▁, spaces become ▁, and pieces are formed by merges (BPE) or scores
// (unigram). SentencePiece merges the pair that forms the piece with the highest score. Listing one
// merge for each way to split a piece, ordered by the piece's score, has the same effect. Special
// pieces become added tokens, which are matched in the text before anything else, as
// data/sentencepiece_model.h does it. Format: https://huggingface.co/docs/tokenizers, versions
// 0.19 to 0.23.
inline constexpr const char* kTokenizerJson = "tokenizer.json";

// begin: the token to put before every text; -1: none. Returns nothing if tokenizer.json cannot
// express the model: models of whole words or characters, or with spaces after words.
std::optional<std::string> print_tokenizer_json(const data::Vocabulary& vocabulary, int32_t begin);

// The part of tokenizer.json that puts `begin` before a text; null for -1.
HfJson print_post_processor(const data::Vocabulary& vocabulary, int32_t begin);

}  // namespace thinwire::convert
