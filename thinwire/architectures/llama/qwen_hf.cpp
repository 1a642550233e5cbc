
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "thinwire/architectures/llama/llama_hf.h"
#include "thinwire/base/json.h"

namespace thinwire::convert {
namespace {

using method::LlamaOptions;
using method::QkNorm;

constexpr LlamaDefaults kQwen2 = {.kv_heads = 32, .positions = 32'768};
constexpr LlamaDefaults kQwen3 = {.kv_heads = 32, .head_dim = 128, .positions = 32'768};

bool is_plain(const LlamaOptions& llama) {
  return llama.norm_place == method::NormPlace::kBefore && !llama.mlp_bias;
}

method::ModelSpec read2(const HfFields& config) {
  method::ModelSpec model = read_llama_fields(config, kQwen2);
  model.options<LlamaOptions>().qkv_bias = true;
  read_layer_windows(config, model);
  require_off(config, {"mlp_bias"});
  check_llama_model(config, model);
  return model;
}

bool holds2(const method::ModelSpec& model) {
  const auto& llama = model.options<LlamaOptions>();
  return is_plain(llama) && llama.qk_norm == QkNorm::kNone && llama.qkv_bias && !llama.out_bias;
}

HfJson print2(const HfConfig& config, const char* dtype) {
  HfJson json = print_llama_fields(kHfQwen2, config, dtype);
  // transformers reads it, but no such file has it.
  if (config.model.options<LlamaOptions>().head_dim == 0) json.erase("head_dim");
  print_layer_windows(config.model, json);
  return json;
}

method::ModelSpec read3(const HfFields& config) {
  method::ModelSpec model = read_llama_fields(config, kQwen3);
  auto& llama = model.options<LlamaOptions>();
  llama.qk_norm = QkNorm::kHead;
  llama.qkv_bias = llama.out_bias = config.flag("attention_bias");
  read_layer_windows(config, model);
  require_off(config, {"mlp_bias"});
  check_llama_model(config, model);
  return model;
}

bool holds3(const method::ModelSpec& model) {
  const auto& llama = model.options<LlamaOptions>();
  return is_plain(llama) && llama.qk_norm == QkNorm::kHead && llama.qkv_bias == llama.out_bias;
}

HfJson print3(const HfConfig& config, const char* dtype) {
  HfJson json = print_llama_fields(kHfQwen3, config, dtype);
  json["attention_bias"] = config.model.options<LlamaOptions>().qkv_bias;
  print_layer_windows(config.model, json);
  return json;
}

}  // namespace

const HfArchitecture kHfQwen2 = {
    .name = "llama",
    .model_type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .positions = kQwen2.positions,
    .read = read2,
    .holds = holds2,
    .print = print2,
};

const HfArchitecture kHfQwen3 = {
    .name = "llama",
    .model_type = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .positions = kQwen3.positions,
    .read = read3,
    .holds = holds3,
    .print = print3,
};

bool splits_as_qwen(const std::string& tokenizer_json) {
  constexpr std::string_view kPattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const auto json = try_parse_json<nlohmann::json>(tokenizer_json);
  if (!json.is_object()) return false;
  const auto text_at = [&](const char* place) {
    const auto value = json.value(nlohmann::json::json_pointer(place), nlohmann::json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  return text_at("/normalizer/type") == "NFC" && text_at("/pre_tokenizer/type") == "Sequence" &&
         text_at("/pre_tokenizer/pretokenizers/0/pattern/Regex") == kPattern &&
         text_at("/pre_tokenizer/pretokenizers/1/type") == "ByteLevel";
}

}  // namespace thinwire::convert
