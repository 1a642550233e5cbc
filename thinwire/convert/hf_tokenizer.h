// The tokenizer of a Hugging Face folder: what its files say about the token with which texts
// begin, and the files of an export.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kTokenizerModel = "tokenizer.model";

// begin: the token with which texts begin; -1: none. It is written as bos_token, whatever the
// vocabulary calls it, so that transformers puts it there.
HfJson print_tokenizer_config(const data::Vocabulary& vocabulary, int64_t sequence, int32_t begin);

// The token with which texts begin when transformers reads the folder: none (-1) if
// tokenizer_config.json has add_bos_token = false, else its bos_token, else bos_token_id of
// config.json if that is the vocabulary's BOS or EOS, else the vocabulary's BOS. Throws Error
// naming the file if it is damaged.
int32_t read_begin_token(const fs::path& folder, const data::Vocabulary& vocabulary,
                         std::optional<int64_t> bos_token_id = {});
// The same from the files kept of a folder.
int32_t origin_begin_token(const HfOrigin& origin, const data::Vocabulary& vocabulary);

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

}  // namespace thinwire::convert
