#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/convert/hf_fields.h"
#include "thinwire/convert/peft.h"

namespace thinwire::convert {
namespace {

constexpr int64_t kMaxRank = 1 << 20;

// What init_lora_weights may name. The former change the base as well, so that the factors fit no
// other weights; "pissa" also stands before "_niter_16" and the like.
constexpr std::array<std::string_view, 5> kChangeBase = {"pissa", "olora", "loftq", "corda",
                                                         "lora_ga"};
constexpr std::array<std::string_view, 4> kKeepBase = {"gaussian", "eva", "orthogonal", "mica"};

struct Variant {
  const char* field;
  std::string_view what;
};
constexpr std::array<Variant, 14> kVariants = {{
    {"use_dora", "DoRA"},
    {"alora_invocation_tokens", "activated LoRA, which is on behind these tokens only"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "block-diagonal LoRA"},
    {"arrow_config", "Arrow, which chooses among adapters"},
    {"kasa_config", "KaSA, which changes the base"},
    {"monteclora_config", "MonteCLoRA"},
    {"lora_bias", "LoRA with biases"},
    {"fan_in_fan_out", "matrices that are stored transposed"},
    {"rank_pattern", "ranks by matrix"},
    {"alpha_pattern", "scales by matrix"},
    {"target_parameters", "LoRA of tensors that are no module's weight"},
    {"trainable_token_indices", "training of single rows of the embedding"},
    {"layer_replication", "repeated layers"},
}};

// Fields that do not change what is computed from the tensors of the file: where factors are,
// which the tensors' names say, and how they were drawn, trained and written.
constexpr std::array<std::string_view, 21> kWithoutEffect = {
    "task_type",       "auto_mapping",    "peft_version",        "revision",       "inference_mode",
    "target_modules",  "exclude_modules", "layers_to_transform", "layers_pattern", "lora_dropout",
    "megatron_config", "megatron_core",   "loftq_config",        "eva_config",     "corda_config",
    "lora_ga_config",  "velora_config",   "qalora_group_size",   "runtime_config", "merge_weights",
    "unsloth_fixed"};

bool is_unused(const HfJson& value) {
  return (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

void check_initialization(const HfFields& fields) {
  const HfJson* init = fields.find("init_lora_weights");
  if (init == nullptr || init->is_boolean()) return;
  const std::string name = init->is_string() ? lower_case(init->get<std::string>()) : "";
  if (std::ranges::find(kKeepBase, name) != kKeepBase.end()) return;
  if (std::ranges::find(kChangeBase, name.substr(0, name.find("_niter_"))) != kChangeBase.end()) {
    fields.refuse(
        "init_lora_weights = {} changed the weights of the base; convert the adapter with PEFT "
        "first (path_initial_model_for_weight_conversion)",
        print_json(*init));
  }
  fields.refuse("init_lora_weights = {} is not understood; expected true, false or one of {}",
                print_json(*init), fmt::join(kKeepBase, ", "));
}

void refuse_variants(const HfFields& fields) {
  if (const std::string type = fields.text("peft_type", ""); type != "LORA") {
    fields.refuse("peft_type must be \"LORA\", got \"{}\"", type);
  }
  if (const std::string bias = fields.text("bias", "none"); bias != "none") {
    fields.refuse("bias must be \"none\", got \"{}\": the models here have no trained biases",
                  bias);
  }
  for (const auto& [field, what] : kVariants) {
    const HfJson* value = fields.find(field);
    if (value == nullptr || is_unused(*value)) continue;
    fields.refuse(
        "{} = {} is a variant that Thinwire does not compute ({}); expected it to be "
        "absent",
        field, print_json(*value), what);
  }
  check_initialization(fields);
}

config::StringList read_whole(const HfFields& fields) {
  const HfJson* list = fields.find("modules_to_save");
  if (list == nullptr) return {};
  const auto is_text = [](const HfJson& name) { return name.is_string(); };
  if (!list->is_array() || !std::ranges::all_of(*list, is_text)) {
    fields.refuse("modules_to_save must be a list of names, got {}", print_json(*list));
  }
  return list->get<config::StringList>();
}

}  // namespace

PeftConfig read_peft_config(const fs::path& path) {
  const std::string text = read_text_file(path);
  const HfJson json = try_parse_json<HfJson>(text);
  const HfFields fields(path, json);
  if (!json.is_object()) fields.refuse("it is {}", json_fault(text));
  refuse_variants(fields);
  PeftConfig config;
  config.rank = fields.count("r", kMaxRank);
  config.alpha = fields.number("lora_alpha", 8);
  if (config.alpha <= 0) fields.refuse("lora_alpha must be > 0, got {}", config.alpha);
  if (fields.flag("use_rslora")) config.alpha *= std::sqrt(static_cast<double>(config.rank));
  config.base = fields.text("base_model_name_or_path", "");
  config.whole = read_whole(fields);
  config.ties = fields.flag("ensure_weight_tying");
  for (const auto& [name, value] : json.items()) {
    if (is_unused(value)) fields.find(name.c_str());
  }
  fields.refuse_others(kWithoutEffect);
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
