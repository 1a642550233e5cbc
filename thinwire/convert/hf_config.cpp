#include "thinwire/convert/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"

namespace thinwire::convert {
namespace {

using Json = nlohmann::ordered_json;

// As of the fields of [model], so that no product of them overflows.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxIntermediate = int64_t{1} << 22;
constexpr int64_t kMaxSequence = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 10'000;

// Hugging Face's names of the fields of [model].
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

// One JSON object of the file; null counts as absent, as transformers writes it.
class ConfigParser {
 public:
  ConfigParser(const fs::path& path, const Json& json) : path_(path), json_(json) {}

  template <typename... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> message, Values&&... values) const {
    throw Error(fmt::format("cannot import {}: {}", path_.string(),
                            fmt::format(message, std::forward<Values>(values)...)));
  }
  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<int64_t> find_count(const char* key, int64_t max) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
        value->get<uint64_t>() > static_cast<uint64_t>(max)) {
      refuse("{} must be a whole number from 1 to {}, got {}", key, max, value->dump());
    }
    return value->get<int64_t>();
  }
  int64_t count(const char* key, int64_t max) const {
    const auto value = find_count(key, max);
    if (!value) refuse("{} is missing", key);
    return *value;
  }
  double number(const char* key, double absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_number() || !std::isfinite(value->get<double>())) {
      refuse("{} must be a number, got {}", key, value->dump());
    }
    return value->get<double>();
  }
  bool flag(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse("{} must be true or false, got {}", key, value->dump());
    return value->get<bool>();
  }
  std::string text(const char* key, const std::string& absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) refuse("{} must be a string, got {}", key, value->dump());
    return value->get<std::string>();
  }

 private:
  const fs::path& path_;
  const Json& json_;
};

bool names_llama(const ConfigParser& config) {
  if (config.find("model_type") != nullptr) return config.text("model_type", "") == "llama";
  const Json* architectures = config.find("architectures");
  return architectures != nullptr && *architectures == Json::array({"LlamaForCausalLM"});
}

void check_features(const ConfigParser& config) {
  if (!names_llama(config)) {
    config.refuse("model_type is \"{}\"; only \"llama\" can be imported",
                  config.text("model_type", ""));
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.flag(key)) config.refuse("{} is true; Thinwire's Llama has no biases", key);
  }
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu") {
    config.refuse("hidden_act is \"{}\"; only \"silu\" is supported", activation);
  }
  if (config.find("quantization_config") != nullptr) {
    config.refuse("quantization_config is set; only F32, F16 and BF16 weights can be imported");
  }
}

// 4.x: rope_theta, and rope_scaling where positions are scaled. 5.x: both in rope_parameters.
double read_rope_theta(const fs::path& path, const ConfigParser& config) {
  double theta = config.number("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* json = config.find(key);
    if (json == nullptr) continue;
    if (!json->is_object()) config.refuse("{} must be an object", key);
    const ConfigParser rope(path, *json);
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    if (type != "default") {
      config.refuse("{}.rope_type is \"{}\"; only \"default\" is supported, without scaling", key,
                    type);
    }
    if (rope.number("partial_rotary_factor", 1) != 1) {
      config.refuse("{}.partial_rotary_factor must be 1", key);
    }
    theta = rope.number("rope_theta", theta);
  }
  if (config.number("partial_rotary_factor", 1) != 1) {
    config.refuse("partial_rotary_factor must be 1");
  }
  return theta;
}

void check_range(const ConfigParser& config, const char* name, const config::Field& field,
                 double value) {
  if (config::in_range(field, value)) return;
  config.refuse("{} must be {}, got {}", name, config::range_phrase(field), value);
}

// What a recipe could not say, no model may have.
void check_ranges(const ConfigParser& config, config::ModelSection model) {
  config::Fields fields;
  model.describe(fields);
  for (const auto& [theirs, ours] : kNames) {
    const auto field =
        std::ranges::find(fields.all(), std::string_view(ours), &config::Field::name);
    if (const auto* const* count = std::get_if<int64_t*>(&field->target)) {
      check_range(config, theirs, *field, static_cast<double>(**count));
    } else {
      check_range(config, theirs, *field, *std::get<double*>(field->target));
    }
  }
}

void check_heads(const ConfigParser& config, const config::ModelSection& model) {
  if (model.hidden % model.heads != 0 || model.head_size() % 2 != 0) {
    config.refuse("hidden_size {} must be an even multiple of num_attention_heads {}", model.hidden,
                  model.heads);
  }
  if (model.heads % model.kv_heads != 0) {
    config.refuse("num_attention_heads {} must be a multiple of num_key_value_heads {}",
                  model.heads, model.kv_heads);
  }
  const int64_t head_dim = config.find_count("head_dim", kMaxHidden).value_or(model.head_size());
  if (head_dim != model.head_size()) {
    config.refuse("head_dim is {}; only hidden_size / num_attention_heads = {} is supported",
                  head_dim, model.head_size());
  }
}

std::optional<int64_t> read_bos(const ConfigParser& config) {
  const Json* bos = config.find("bos_token_id");
  if (bos == nullptr) return std::nullopt;
  if (!bos->is_number_integer()) {
    config.refuse("bos_token_id must be a whole number, got {}", bos->dump());
  }
  return bos->get<int64_t>();
}

// BOS and EOS as ids; null where there are none.
Json id_or_null(int32_t id) { return id < 0 ? Json() : Json(id); }

Json special_ids(const SpecialTokens& tokens) {
  return {{"bos_token_id", id_or_null(tokens.bos)},
          {"eos_token_id", id_or_null(tokens.eos)},
          {"pad_token_id", Json()}};
}

}  // namespace

HfConfig read_hf_config(const fs::path& path) {
  const Json json = Json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is not a JSON object", path.string()));
  }
  const ConfigParser config(path, json);
  check_features(config);
  HfConfig result;
  config::ModelSection& model = result.model;
  model.vocab = config.count("vocab_size", kMaxVocab);
  model.hidden = config.count("hidden_size", kMaxHidden);
  model.intermediate = config.count("intermediate_size", kMaxIntermediate);
  model.layers = config.count("num_hidden_layers", kMaxLayers);
  model.heads = config.count("num_attention_heads", kMaxHeads);
  model.kv_heads = config.find_count("num_key_value_heads", kMaxHeads).value_or(model.heads);
  model.rope_theta = read_rope_theta(path, config);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied = config.flag("tie_word_embeddings");
  model.init_std = config.number("initializer_range", model.init_std);
  result.sequence = config.find_count("max_position_embeddings", kMaxSequence).value_or(2048);
  result.bos = read_bos(config);
  check_ranges(config, model);
  check_heads(config, model);
  return result;
}

std::string print_hf_config(const HfConfig& config, const SpecialTokens& tokens, DType dtype) {
  const config::ModelSection& model = config.model;
  const char* dtype_name = dtype == DType::kBf16 ? "bfloat16" : "float32";
  Json json = {
      {"architectures", Json::array({"LlamaForCausalLM"})},
      {"model_type", "llama"},
      {"vocab_size", model.vocab},
      {"hidden_size", model.hidden},
      {"intermediate_size", model.intermediate},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.kv_heads},
      {"head_dim", model.head_size()},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.sequence},
      {"initializer_range", model.init_std},
      {"rms_norm_eps", model.norm_eps},
      {"rope_theta", model.rope_theta},                                                   // 4.x
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", model.rope_theta}}},  // 5.x
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"mlp_bias", false},
      {"tie_word_embeddings", model.tied},
      {"use_cache", true},
      {"torch_dtype", dtype_name},  // 4.x
      {"dtype", dtype_name},        // 5.x
  };
  json.update(special_ids(tokens));
  return json.dump(2) + "\n";
}

std::string print_generation_config(const SpecialTokens& tokens) {
  return special_ids(tokens).dump(2) + "\n";
}

}  // namespace thinwire::convert
