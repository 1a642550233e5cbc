// config.json of Hugging Face's LlamaForCausalLM, and what it has in common with the other families
// that Thinwire computes as the architecture llama. Each family has a file in this folder.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "thinwire/convert/hf_architectures.h"
#include "thinwire/method/architectures/llama.h"

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

}  // namespace thinwire::convert
