// Reads a tokenizer.json as a vocabulary.
//
// The file does not say which tokens begin and end a text. tokenizer_config.json beside it does
// (bos_token, eos_token), or config.json does (bos_token_id, eos_token_id: the first if there are
// several). When Thinwire stores a tokenizer, it keeps everything in one file: the tokenizer.json
// with a field "thinwire": {"bos_token": ..., "eos_token": ...} added at the front.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// `content` is the content of `file`. Throws Error that names what is wrong.
std::unique_ptr<Vocabulary> read_tokenizer_vocabulary(const fs::path& file,
                                                      const std::string& content);

// The object in the file `name` beside `file`; an empty one if there is none. Throws Error if it is
// something else.
nlohmann::json read_json_beside(const fs::path& file, const char* name);

// The name of a special token: "<s>", or {"content": "<s>", ...}; empty if it is neither.
std::string token_name(const nlohmann::json& token);

// A tokenizer.json as Thinwire stores it; bos and eos are the names of tokens, or empty.
std::string keep_tokenizer(const std::string& content, const std::string& bos,
                           const std::string& eos);

// Extracts the tokenizer.json from a tokenizer as Thinwire stores it.
std::string tokenizer_json_in(const std::string& kept);

}  // namespace thinwire::data
