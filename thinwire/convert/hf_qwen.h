// config.json of Hugging Face's Qwen2ForCausalLM (Qwen Team 2024, arXiv 2407.10671), a Llama with
// biases on queries, keys and values, and Qwen3ForCausalLM (2025, arXiv 2505.09388), a Llama that
// normalizes the queries and keys of each head.
#pragma once

#include <string>

#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {

extern const HfArchitecture kHfQwen2, kHfQwen3;

// Whether a tokenizer.json normalizes and splits text as Qwen's own does. transformers 5 lets every
// tokenizer of a Qwen2 model do so, whatever its file says.
bool splits_as_qwen(const std::string& tokenizer_json);

}  // namespace thinwire::convert
