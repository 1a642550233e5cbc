
#include <nlohmann/json.hpp>

#include "thinwire/architectures/llama/llama_hf.h"

namespace thinwire::convert {
namespace {

using method::LlamaOptions;

constexpr int64_t kPositions = 131'072;
constexpr int64_t kWindow = 4096;  // if the field is absent; null means no window
constexpr int64_t kMaxPositions = int64_t{1} << 24;

method::ModelSpec read(const HfFields& config) {
  method::ModelSpec model = read_llama_fields(config, {.kv_heads = 8, .positions = kPositions});
  model.options<LlamaOptions>().window =
      config.has("sliding_window") ? config.find_count("sliding_window", kMaxPositions).value_or(0)
                                   : kWindow;
  require_off(config, {"attention_bias", "mlp_bias"});
  check_llama_model(config, model);
  return model;
}

bool holds(const method::ModelSpec& model) {
  const auto& llama = model.options<LlamaOptions>();
  return llama.full_layers == 0 && llama.qk_norm == method::QkNorm::kNone &&
         llama.norm_place == method::NormPlace::kBefore && !llama.qkv_bias && !llama.out_bias &&
         !llama.mlp_bias;
}

HfJson print(const HfConfig& config, const char* dtype) {
  const auto& llama = config.model.options<LlamaOptions>();
  HfJson json = print_llama_fields(kHfMistral, config, dtype);
  json["sliding_window"] = llama.window > 0 ? HfJson(llama.window) : HfJson();
  return json;
}

}  // namespace

const HfArchitecture kHfMistral = {
    .name = "llama",
    .model_type = "mistral",
    .class_name = "MistralForCausalLM",
    .positions = kPositions,
    .read = read,
    .holds = holds,
    .print = print,
};

}  // namespace thinwire::convert
