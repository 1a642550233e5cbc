#include "thinwire/convert/peft_config.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/convert/hf_fields.h"

namespace thinwire::convert {
namespace {

constexpr int64_t kMaxRank = 1 << 20;

// Initializations that change the base as well, so that the factors fit no other weights.
constexpr std::array<std::string_view, 4> kChangeBase = {"pissa", "olora", "loftq", "corda"};

bool is_empty(const HfJson& value) {
  return (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

void refuse_variants(const HfFields& fields) {
  if (const std::string type = fields.text("peft_type", ""); type != "LORA") {
    fields.refuse("peft_type must be \"LORA\", got \"{}\"", type);
  }
  if (const std::string bias = fields.text("bias", "none"); bias != "none") {
    fields.refuse("bias must be \"none\", got \"{}\": the models here have no trained biases",
                  bias);
  }
  for (const char* key :
       {"use_dora", "lora_bias", "fan_in_fan_out", "rank_pattern", "alpha_pattern",
        "target_parameters", "trainable_token_indices", "layer_replication"}) {
    const HfJson* value = fields.find(key);
    if (value == nullptr || is_empty(*value)) continue;
    fields.refuse("{} = {} is a variant that Thinwire does not compute; expected it to be absent",
                  key, print_json(*value));
  }
  const HfJson* init = fields.find("init_lora_weights");
  if (init == nullptr || !init->is_string()) return;
  for (const std::string_view name : kChangeBase) {
    if (!init->get<std::string>().starts_with(name)) continue;
    fields.refuse(
        "init_lora_weights = {} changed the weights of the base; convert the adapter with PEFT "
        "first (path_initial_model_for_weight_conversion)",
        print_json(*init));
  }
}

}  // namespace

PeftConfig read_peft_config(const fs::path& path) {
  const HfJson json = try_parse_json<HfJson>(read_text_file(path));
  const HfFields fields(path, json);
  if (!json.is_object()) fields.refuse("it is not a JSON object");
  refuse_variants(fields);
  PeftConfig config;
  config.rank = fields.count("r", kMaxRank);
  config.alpha = fields.number("lora_alpha", 8);
  if (config.alpha <= 0) fields.refuse("lora_alpha must be > 0, got {}", config.alpha);
  if (fields.flag("use_rslora")) config.alpha *= std::sqrt(static_cast<double>(config.rank));
  config.base = fields.text("base_model_name_or_path", "");
  return config;
}

std::string print_peft_config(const PeftConfig& config, const PeftModules& modules) {
  HfJson json;
  json["peft_type"] = "LORA";
  json["task_type"] = config.classifies ? "SEQ_CLS" : "CAUSAL_LM";
  json["base_model_name_or_path"] = config.base;
  json["r"] = config.rank;
  json["lora_alpha"] = config.alpha;
  json["lora_dropout"] = 0.0;
  json["target_modules"] = modules.targets;
  json["modules_to_save"] = modules.whole.empty() ? HfJson() : HfJson(modules.whole);
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["init_lora_weights"] = true;
  json["inference_mode"] = true;
  return print_json(json, {.indent = 2}) + "\n";
}

}  // namespace thinwire::convert
