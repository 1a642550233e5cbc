#include "thinwire/architectures/llama/llama_hf.h"

#include <array>
#include <nlohmann/json.hpp>

namespace thinwire::convert {
namespace {

using method::LlamaOptions;

method::ModelSpec read(const HfFields& config) {
  method::ModelSpec model = read_llama_fields(config, {});
  auto& llama = model.options<LlamaOptions>();
  llama.qkv_bias = llama.out_bias = config.flag("attention_bias");
  llama.mlp_bias = config.flag("mlp_bias");
  check_llama_model(config, model);
  return model;
}

bool holds(const method::ModelSpec& model) {
  const auto& llama = model.options<LlamaOptions>();
  return llama.window == 0 && llama.qk_norm == method::QkNorm::kNone &&
         llama.norm_place == method::NormPlace::kBefore && llama.qkv_bias == llama.out_bias;
}

HfJson print(const HfConfig& config, const char* dtype) {
  const auto& llama = config.model.options<LlamaOptions>();
  HfJson json = print_llama_fields(kHfLlama, config, dtype);
  json["attention_bias"] = llama.qkv_bias;
  json["mlp_bias"] = llama.mlp_bias;
  return json;
}

}  // namespace

const HfArchitecture kHfLlama = {
    .name = "llama",
    .model_type = "llama",
    .class_name = "LlamaForCausalLM",
    .read = read,
    .holds = holds,
    .print = print,
};

// A model that several hold is exported as the first.
constexpr std::array kLlamaTable = {
    &kHfLlama, &kHfMistral, &kHfQwen2, &kHfQwen3, &kHfOlmo2,
};
const std::span<const HfArchitecture* const> kLlamaForms = kLlamaTable;

}  // namespace thinwire::convert
