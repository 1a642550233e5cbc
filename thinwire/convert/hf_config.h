// config.json of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/convert/hf_fields.h"
#include "thinwire/method/architectures/model_spec.h"

namespace thinwire::convert {

struct HfArchitecture;

struct HfConfig {
  method::ModelSpec model;               // complete
  int64_t sequence = 0;                  // max_position_embeddings
  std::optional<int64_t> bos;            // bos_token_id
  const HfArchitecture* form = nullptr;  // that of the file read; null: the first that fits
};

// Reads config.json as transformers 4.x and 5.x write it; absent fields get transformers' defaults.
// Throws Error naming the file, the field, its value and what would be right if the architecture is
// not in hf_architectures.h or asks for something that Thinwire's model does not compute.
HfConfig read_hf_config(const fs::path& path);
// The same from its text; `path` is what errors name.
HfConfig parse_hf_config(const std::string& text, const fs::path& path);

// The ids of special tokens; -1: none.
struct SpecialTokens {
  int32_t bos = -1;  // the token with which texts begin, whatever the vocabulary calls it
  int32_t eos = -1;
};

// "float32", "bfloat16" or "float16".
const char* torch_name(DType dtype);

// Prints a config.json that both versions can read.
HfJson print_hf_config(const HfConfig& config, const SpecialTokens& tokens, DType dtype);

// generation_config.json.
HfJson print_generation_config(const SpecialTokens& tokens);

}  // namespace thinwire::convert
