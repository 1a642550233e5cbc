// tokenizer_config.json of Hugging Face's LlamaTokenizer, and what it says about the token with
// which texts begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";

// begin: the token with which texts begin; -1: none. It is written as bos_token, whatever the
// vocabulary calls it, so that transformers puts it there.
std::string print_tokenizer_config(const data::Vocabulary& vocabulary, int64_t sequence,
                                   int32_t begin);

// The token with which texts begin when transformers reads the folder: none (-1) if
// tokenizer_config.json has add_bos_token = false, else its bos_token, else bos_token_id of
// config.json if that is the vocabulary's BOS or EOS, else the vocabulary's BOS. Throws Error
// naming the file if it is damaged.
int32_t read_begin_token(const fs::path& folder, const data::Vocabulary& vocabulary,
                         std::optional<int64_t> bos_token_id = {});

}  // namespace thinwire::convert
