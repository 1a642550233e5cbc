// Byte-level BPE in the files of older Hugging Face folders: vocab.json (pieces and their ids) and
// merges.txt, as the tokenizers of GPT-2, RoBERTa and Qwen 2 wrote them.
//
// How they split a text is in no file; it follows from tokenizer_class in tokenizer_config.json, or
// else from model_type in config.json, or else is as in GPT-2. Added and special tokens are those
// of tokenizer_config.json, special_tokens_map.json and added_tokens.json, read as transformers (4
// and 5) reads them, and where these say nothing those of the class.
#pragma once

#include <string>

#include "thinwire/base/file.h"

namespace thinwire::data {

inline constexpr const char* kVocabFile = "vocab.json";
inline constexpr const char* kMergesFile = "merges.txt";

bool has_vocab_and_merges(const fs::path& folder);

// The content of the tokenizer.json that makes the same tokens. Throws Error that names the file
// and what is wrong or not supported in it.
std::string join_vocab_and_merges(const fs::path& folder);

}  // namespace thinwire::data
