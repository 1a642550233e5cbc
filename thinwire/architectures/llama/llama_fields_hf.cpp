// What config.json says in all families of the architecture llama.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/architectures/llama/llama_hf.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"

namespace thinwire::convert {
namespace {

// The limits of the fields of [model] and [llama], so that no product of them overflows.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxHeadDim = int64_t{1} << 16;
constexpr int64_t kMaxIntermediate = int64_t{1} << 22;
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
// For layers with types, where the file does not say.
constexpr int64_t kWindow = 4096;
constexpr double kFullLayers = 28;

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
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {  // two names of one function
    config.refuse("hidden_act is \"{}\"; only \"silu\" (or \"swish\") is supported", activation);
  }
  if (config.find("quantization_config") != nullptr) {
    config.refuse("quantization_config is set; only F32, F16 and BF16 weights can be imported");
  }
  require_off(config, {"rope_interleaved", "use_mrope", "is_encoder_decoder", "add_cross_attention",
                       "tie_encoder_decoder"});
  for (const char* key : {"attention_dropout", "chunk_size_feed_forward"}) {
    if (const double value = config.number(key, 0); value != 0) {
      config.refuse("{} is {}; Thinwire has none, and only 0 is supported", key, value);
    }
  }
  if (const HfJson* pruned = config.find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    config.refuse("pruned_heads is {}; only models with all their heads are supported",
                  print_json(*pruned));
  }
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
  const auto& options = model.options<method::LlamaOptions>();
  if (options.head_dim == 0 &&
      (model.hidden % model.heads != 0 || model.hidden / model.heads % 2 != 0)) {
    config.refuse("hidden_size {} must be an even multiple of num_attention_heads {}", model.hidden,
                  model.heads);
  }
  if (options.head_dim % 2 != 0) {
    config.refuse("head_dim must be even, got {}", options.head_dim);
  }
  if (model.heads % options.kv_heads != 0) {
    config.refuse("num_attention_heads {} must be a multiple of num_key_value_heads {}",
                  model.heads, options.kv_heads);
  }
}

// 0 where it is what follows from width and heads.
int64_t read_head_dim(const HfFields& config, const method::ModelSpec& model, int64_t absent) {
  const int64_t given = config.find_count("head_dim", kMaxHeadDim).value_or(absent);
  return given * model.heads == model.hidden ? 0 : given;
}

int64_t read_full_layers(const HfFields& config) {
  const double layers = config.number("max_window_layers", kFullLayers);
  if (layers < 0 || layers > kMaxLayers || layers != std::floor(layers)) {
    config.refuse("max_window_layers must be a whole number from 0 to {}, got {}", kMaxLayers,
                  layers);
  }
  return static_cast<int64_t>(layers);
}

// How many layers come before the first one with a window; all layers after that have one.
int64_t leading_full_layers(const HfFields& config, const HfJson& types, int64_t layers) {
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) {
    config.refuse("layer_types must list num_hidden_layers = {} types, got {}", layers,
                  print_json(types));
  }
  int64_t full = 0;
  while (full < layers && types[static_cast<size_t>(full)] == "full_attention") ++full;
  for (int64_t layer = full; layer < layers; ++layer) {
    if (types[static_cast<size_t>(layer)] == "sliding_attention") continue;
    config.refuse("layer_types must be \"full_attention\", then \"sliding_attention\", got {}",
                  print_json(types));
  }
  return full;
}

}  // namespace

method::ModelSpec read_llama_fields(const HfFields& config, const LlamaDefaults& defaults) {
  check_features(config);
  method::ModelSpec model;
  auto& llama = model.options<method::LlamaOptions>();
  model.vocab = config.count("vocab_size", kMaxVocab);
  model.hidden = config.count("hidden_size", kMaxHidden);
  llama.intermediate = config.count("intermediate_size", kMaxIntermediate);
  model.layers = config.count("num_hidden_layers", kMaxLayers);
  model.heads = config.count("num_attention_heads", kMaxHeads);
  const int64_t kv_heads = defaults.kv_heads == 0 ? model.heads : defaults.kv_heads;
  llama.kv_heads = config.find_count("num_key_value_heads", kMaxHeads).value_or(kv_heads);
  llama.head_dim = read_head_dim(config, model, defaults.head_dim);
  llama.norm_eps = config.number("rms_norm_eps", defaults.norm_eps);
  model.tied = config.flag("tie_word_embeddings");
  model.init_std = config.number("initializer_range", model.init_std);
  const int64_t positions =
      config.find_count("max_position_embeddings", kMaxPositions).value_or(defaults.positions);
  llama.rope = read_rope(config, positions);
  check_ranges(config, model);
  check_heads(config, model);
  return model;
}

void require_off(const HfFields& config, std::initializer_list<const char*> flags) {
  for (const char* flag : flags) {
    if (config.flag(flag)) config.refuse("{} is true; only false is supported", flag);
  }
}

void check_llama_model(const HfFields& config, const method::ModelSpec& model) {
  try {
    method::check_llama(model);
  } catch (const UsageError& error) {
    config.refuse("{}", error.what());
  }
}

void read_layer_windows(const HfFields& config, method::ModelSpec& model) {
  const int64_t window = config.has("sliding_window")
                             ? config.find_count("sliding_window", kMaxPositions).value_or(0)
                             : kWindow;
  const bool slides = config.flag("use_sliding_window") && window > 0;
  int64_t full = read_full_layers(config);
  if (const HfJson* types = config.find("layer_types")) {
    full = leading_full_layers(config, *types, model.layers);
    if (full < model.layers && !slides) {
      config.refuse("layer_types names sliding_attention, but no window is in use");
    }
  }
  if (!slides || full >= model.layers) return;
  auto& llama = model.options<method::LlamaOptions>();
  llama.window = window;
  llama.full_layers = full;
}

void print_layer_windows(const method::ModelSpec& model, HfJson& json) {
  const auto& llama = model.options<method::LlamaOptions>();
  json["use_sliding_window"] = llama.window > 0;
  json["sliding_window"] = llama.window > 0 ? HfJson(llama.window) : HfJson();
  json["max_window_layers"] = llama.window > 0 ? llama.full_layers : model.layers;
}

HfJson print_llama_fields(const HfArchitecture& form, const HfConfig& config, const char* dtype) {
  const method::ModelSpec& model = config.model;
  const auto& llama = model.options<method::LlamaOptions>();
  const bool dynamic = llama.rope.scaling == RopeScaling::kDynamic;
  HfJson json = {
      {"architectures", HfJson::array({std::string(form.class_name)})},
      {"model_type", std::string(form.model_type)},
      {"vocab_size", model.vocab},
      {"hidden_size", model.hidden},
      {"intermediate_size", llama.intermediate},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", llama.kv_heads},
      {"head_dim", method::LlamaHeads(model).size},
      {"hidden_act", "silu"},
      // Beyond this number positions are scaled dynamically.
      {"max_position_embeddings", dynamic ? llama.rope.context : config.sequence},
      {"initializer_range", model.init_std},
      {"rms_norm_eps", llama.norm_eps},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", model.tied},
      {"use_cache", true},
      {"torch_dtype", dtype},  // 4.x
      {"dtype", dtype},        // 5.x
  };
  print_rope(llama.rope, json);
  return json;
}

}  // namespace thinwire::convert
