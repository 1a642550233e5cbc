
#include <nlohmann/json.hpp>

#include "thinwire/architectures/llama/llama_hf.h"

namespace thinwire::convert {
namespace {

using method::LlamaOptions;

method::ModelSpec read(const HfFields& config) {
  method::ModelSpec model = read_llama_fields(config, {.norm_eps = 1e-5});
  auto& llama = model.options<LlamaOptions>();
  llama.qk_norm = method::QkNorm::kAll;
  llama.norm_place = method::NormPlace::kAfter;
  llama.qkv_bias = llama.out_bias = config.flag("attention_bias");
  require_off(config, {"mlp_bias"});
  check_llama_model(config, model);
  return model;
}

bool holds(const method::ModelSpec& model) {
  const auto& llama = model.options<LlamaOptions>();
  return llama.window == 0 && llama.qk_norm == method::QkNorm::kAll &&
         llama.norm_place == method::NormPlace::kAfter && llama.qkv_bias == llama.out_bias &&
         !llama.mlp_bias;
}

HfJson print(const HfConfig& config, const char* dtype) {
  const auto& llama = config.model.options<LlamaOptions>();
  HfJson json = print_llama_fields(kHfOlmo2, config, dtype);
  // transformers reads it, but no such file has it.
  if (llama.head_dim == 0) json.erase("head_dim");
  json["attention_bias"] = llama.qkv_bias;
  return json;
}

}  // namespace

const HfArchitecture kHfOlmo2 = {
    .name = "llama",
    .model_type = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .read = read,
    .holds = holds,
    .print = print,
};

}  // namespace thinwire::convert
