#include "thinwire/convert/hf_llama.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/method/llama.h"

namespace thinwire::convert {
namespace {

// The limits of the fields of [model] and [llama], so that no product of them overflows.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxIntermediate = int64_t{1} << 22;
constexpr int64_t kMaxLayers = 10'000;

// Hugging Face's names of these fields.
constexpr std::array<std::array<const char*, 2>, 9> kNames = {
    {{"vocab_size", "vocab"},
     {"hidden_size", "hidden"},
     {"num_hidden_layers", "layers"},
     {"num_attention_heads", "heads"},
     {"num_key_value_heads", "kv_heads"},
     {"intermediate_size", "intermediate"},
     {"rope_theta", "rope_theta"},
     {"rms_norm_eps", "norm_eps"},
     {"initializer_range", "init_std"}}};

void check_features(const HfFields& config) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.flag(key)) config.refuse("{} is true; Thinwire's Llama has no biases", key);
  }
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {  // two names of one function
    config.refuse("hidden_act is \"{}\"; only \"silu\" (or \"swish\") is supported", activation);
  }
  if (config.find("quantization_config") != nullptr) {
    config.refuse("quantization_config is set; only F32, F16 and BF16 weights can be imported");
  }
}

// 4.x: rope_theta, and rope_scaling if positions are scaled. 5.x: both in rope_parameters.
double read_rope_theta(const HfFields& config) {
  double theta = config.number("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<HfFields> rope = config.object(key);
    if (!rope) continue;
    const std::string type = rope->text("rope_type", rope->text("type", "default"));
    if (type != "default") {
      config.refuse("{}.rope_type is \"{}\"; only \"default\" is supported, without scaling", key,
                    type);
    }
    if (rope->number("partial_rotary_factor", 1) != 1) {
      config.refuse("{}.partial_rotary_factor must be 1", key);
    }
    theta = rope->number("rope_theta", theta);
  }
  if (config.number("partial_rotary_factor", 1) != 1) {
    config.refuse("partial_rotary_factor must be 1");
  }
  return theta;
}

// Refuses values that a recipe could not have.
void check_ranges(const HfFields& config, method::ModelSpec model) {
  config::Fields fields;
  model.describe(fields);
  model.own->describe(fields);
  for (const auto& [theirs, ours] : kNames) {
    const auto field =
        std::ranges::find(fields.all(), std::string_view(ours), &config::Field::name);
    config.check_range(theirs, *field);
  }
}

void check_heads(const HfFields& config, const method::ModelSpec& model) {
  if (model.hidden % model.heads != 0 || model.head_size() % 2 != 0) {
    config.refuse("hidden_size {} must be an even multiple of num_attention_heads {}", model.hidden,
                  model.heads);
  }
  const int64_t kv_heads = model.options<method::LlamaOptions>().kv_heads;
  if (model.heads % kv_heads != 0) {
    config.refuse("num_attention_heads {} must be a multiple of num_key_value_heads {}",
                  model.heads, kv_heads);
  }
  const int64_t head_dim = config.find_count("head_dim", kMaxHidden).value_or(model.head_size());
  if (head_dim != model.head_size()) {
    config.refuse("head_dim is {}; only hidden_size / num_attention_heads = {} is supported",
                  head_dim, model.head_size());
  }
}

method::ModelSpec read(const HfFields& config) {
  check_features(config);
  method::ModelSpec model;
  auto& llama = model.options<method::LlamaOptions>();
  model.vocab = config.count("vocab_size", kMaxVocab);
  model.hidden = config.count("hidden_size", kMaxHidden);
  llama.intermediate = config.count("intermediate_size", kMaxIntermediate);
  model.layers = config.count("num_hidden_layers", kMaxLayers);
  model.heads = config.count("num_attention_heads", kMaxHeads);
  llama.kv_heads = config.find_count("num_key_value_heads", kMaxHeads).value_or(model.heads);
  llama.rope_theta = read_rope_theta(config);
  llama.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied = config.flag("tie_word_embeddings");
  model.init_std = config.number("initializer_range", model.init_std);
  check_ranges(config, model);
  check_heads(config, model);
  return model;
}

// Mistral's models (Jiang et al. 2023, arXiv 2310.06825) are Llamas but for their window, which
// config.json has to switch off: left out, it is 4096 tokens.
bool is_mistral(const HfFields& config) {
  if (config.text("model_type", "") != "mistral") return false;
  if (!config.has("sliding_window") || config.find("sliding_window") != nullptr) {
    config.refuse("sliding_window is {}; only null, attention to all tokens, is supported",
                  config.has("sliding_window") ? config.find("sliding_window")->dump()
                                               : "left out, which means 4096");
  }
  return true;
}

HfJson print(const HfConfig& config, const char* dtype) {
  const method::ModelSpec& model = config.model;
  const auto& llama = model.options<method::LlamaOptions>();
  return {
      {"architectures", HfJson::array({"LlamaForCausalLM"})},
      {"model_type", "llama"},
      {"vocab_size", model.vocab},
      {"hidden_size", model.hidden},
      {"intermediate_size", llama.intermediate},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", llama.kv_heads},
      {"head_dim", model.head_size()},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.sequence},
      {"initializer_range", model.init_std},
      {"rms_norm_eps", llama.norm_eps},
      {"rope_theta", llama.rope_theta},                                                   // 4.x
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", llama.rope_theta}}},  // 5.x
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"mlp_bias", false},
      {"tie_word_embeddings", model.tied},
      {"use_cache", true},
      {"torch_dtype", dtype},  // 4.x
      {"dtype", dtype},        // 5.x
  };
}

}  // namespace

const HfArchitecture kHfLlama = {
    .name = "llama",
    .model_type = "llama",
    .class_name = "LlamaForCausalLM",
    .read = read,
    .print = print,
    .is_another = is_mistral,
};

}  // namespace thinwire::convert
