// A tokenizer.json as a vocabulary.
//
// The file does not say which tokens begin and end a text. tokenizer_config.json beside it does
// (bos_token, eos_token), or config.json (bos_token_id, eos_token_id: the first of several). Where
// Thinwire keeps a tokenizer, both are in one file: that of a tokenizer.json with a first field
// "thinwire": {"bos_token": ..., "eos_token": ...}.
#pragma once

#include <memory>
#include <string>

#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// `content` is that of `file`. Throws Error that names what is wrong.
std::unique_ptr<Vocabulary> read_tokenizer_vocabulary(const fs::path& file,
                                                      const std::string& content);

// The tokenizer.json in what Thinwire keeps.
std::string tokenizer_json_in(const std::string& kept);

}  // namespace thinwire::data
