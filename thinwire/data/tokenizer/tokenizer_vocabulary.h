// Reads a tokenizer.json as a vocabulary.
//
// The file does not say which tokens begin and end a text. tokenizer_config.json beside it does
// (bos_token, eos_token), or config.json does (bos_token_id, eos_token_id: the first if there are
// several). When Thinwire stores a tokenizer, it keeps everything in one file: the tokenizer.json
// with a field "thinwire": {"bos_token": ..., "eos_token": ...} added at the front.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// `content` is the content of `file`. Added tokens for which the model beside it has no rows are
// left out (rows_beside). Throws Error that names what is wrong.
std::unique_ptr<Vocabulary> read_tokenizer_vocabulary(const fs::path& file, std::string content);

// The object in the file `name` beside `file`; an empty one if there is none. Throws Error if it is
// something else.
nlohmann::json read_json_beside(const fs::path& file, const char* name);

// vocab_size in the config.json beside `file`, the rows of the model's embedding; nothing if there
// is none.
std::optional<uint64_t> rows_beside(const fs::path& file);

// The name of a special token: "<s>", or {"content": "<s>", ...}; empty if it is neither.
std::string token_name(const nlohmann::json& token);

// A tokenizer.json as Thinwire stores it; bos and eos are the names of tokens, or empty.
std::string keep_tokenizer(const std::string& content, const std::string& bos,
                           const std::string& eos);

// Extracts the tokenizer.json from a tokenizer as Thinwire stores it.
std::string tokenizer_json_in(const std::string& kept);

// Byte-level BPE in the files of older Hugging Face folders: vocab.json (pieces and their ids) and
// merges.txt, as the tokenizers of GPT-2, RoBERTa and Qwen 2 wrote them.
//
// How they split a text is in no file; it follows from tokenizer_class in tokenizer_config.json, or
// else from model_type in config.json, or else is as in GPT-2. Added and special tokens are those
// of tokenizer_config.json, special_tokens_map.json and added_tokens.json, read as transformers (4
// and 5) reads them, and where these say nothing those of the class.
inline constexpr const char* kVocabFile = "vocab.json";
inline constexpr const char* kMergesFile = "merges.txt";

bool has_vocab_and_merges(const fs::path& folder);

// The content of the tokenizer.json that makes the same tokens. Throws Error that names the file
// and what is wrong or not supported in it.
std::string join_vocab_and_merges(const fs::path& folder);

}  // namespace thinwire::data
