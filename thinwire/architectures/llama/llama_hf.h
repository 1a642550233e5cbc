// config.json of Hugging Face's LlamaForCausalLM, and what it has in common with the other families
// that Thinwire computes as the architecture llama. Each family has a file in this folder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/rope.h"
#include "thinwire/convert/hf_architectures.h"
#include "thinwire/convert/hf_fields.h"

namespace thinwire::convert {

extern const HfArchitecture kHfLlama;

// A family's defaults for fields absent from config.json.
struct LlamaDefaults {
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  double norm_eps = 1e-6;
  int64_t positions = 2048;
};

// Reads the fields that all families have. Throws Error naming the field for anything that no
// Llama has. Biases, norms and windows are left to the family.
method::ModelSpec read_llama_fields(const HfFields& config, const LlamaDefaults& defaults);

// Throws Error if one of these flags is set, since the family lacks the feature.
void require_off(const HfFields& config, std::initializer_list<const char*> flags);

// Throws Error if the model contradicts itself. Called last by every family.
void check_llama_model(const HfFields& config, const method::ModelSpec& model);

// Reads the window of the families that give each layer a type (Qwen): use_sliding_window,
// sliding_window, max_window_layers and layer_types.
void read_layer_windows(const HfFields& config, method::ModelSpec& model);
void print_layer_windows(const method::ModelSpec& model, HfJson& json);

// Prints the same fields.
HfJson print_llama_fields(const HfArchitecture& form, const HfConfig& config, const char* dtype);

// The rotary positions of a Hugging Face config.json: rope_theta with rope_scaling (transformers
// 4.x), or both in rope_parameters (5.x).

// positions: max_position_embeddings, the context before scaling where the file names no other.
// Throws Error naming the file and the field for a scaling that Thinwire does not compute, for
// values that make no sense, and if both places contradict each other.
RopeSpec read_rope(const HfFields& config, int64_t positions);

// Adds the fields of both versions.
void print_rope(const RopeSpec& rope, HfJson& json);

// config.json of Hugging Face's MistralForCausalLM (Jiang et al. 2023, arXiv 2310.06825): a Llama
// whose attention may see a sliding window only.
extern const HfArchitecture kHfMistral;

// config.json of Hugging Face's Olmo2ForCausalLM (OLMo Team 2024, arXiv 2501.00656): a Llama that
// normalizes the outputs of its branches instead of their inputs, and all queries and keys of a
// token together.
extern const HfArchitecture kHfOlmo2;

// config.json of Hugging Face's Qwen2ForCausalLM (Qwen Team 2024, arXiv 2407.10671), a Llama with
// biases on queries, keys and values, and Qwen3ForCausalLM (2025, arXiv 2505.09388), a Llama that
// normalizes the queries and keys of each head.
extern const HfArchitecture kHfQwen2, kHfQwen3;

// Whether a tokenizer.json normalizes and splits text as Qwen's own does. transformers 5 lets every
// tokenizer of a Qwen2 model do so, whatever its file says.
bool splits_as_qwen(const std::string& tokenizer_json);

}  // namespace thinwire::convert
