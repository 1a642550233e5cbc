#include "thinwire/architectures/roberta/roberta_hf.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "thinwire/architectures/llama/llama_hf.h"
#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"

namespace thinwire::convert {
namespace {

using method::RobertaOptions;

constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxRows = int64_t{1} << 24;
constexpr const char* kRegression = "regression";
constexpr const char* kClassification = "single_label_classification";
constexpr int64_t kPad = 1;  // from which RoBERTa numbers its positions

// Classes by id2label, or else num_labels; transformers' default is 2.
int64_t read_labels(const HfFields& config) {
  const auto count = config.find_count("num_labels", 1 << 16);
  const HfJson* names = config.find("id2label");
  if (names == nullptr) return count.value_or(2);
  if (!names->is_object() || names->empty()) {
    config.refuse("id2label must be an object with the name of each class, got {}",
                  print_json(*names));
  }
  const int64_t named = std::ssize(*names);
  if (count && *count != named) {
    config.refuse("num_labels is {}, but id2label has {} classes", *count, named);
  }
  return named;
}

void check_encoder_features(const HfFields& config) {
  const std::string activation = config.text("hidden_act", "gelu");
  if (activation != "gelu") {
    config.refuse("hidden_act is \"{}\"; only \"gelu\" is supported", activation);
  }
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    config.refuse("position_embedding_type is \"{}\"; only \"absolute\" is supported", positions);
  }
  require_off(config, {"is_decoder", "add_cross_attention", "is_encoder_decoder"});
  const double pad = config.number("pad_token_id", kPad);
  if (pad != kPad) config.refuse("pad_token_id must be {}, got {}", kPad, pad);
  // Nothing is dropped here, in training neither.
  for (const char* key :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"}) {
    config.number(key, 0);
  }
  config.flag("gradient_checkpointing");
  config.flag("tie_word_embeddings");  // of the other head
}

// As transformers infers it from the number of labels; several classes of one text are not known.
void check_problem(const HfFields& config, int64_t labels) {
  const std::string known = labels == 1 ? kRegression : kClassification;
  const std::string problem = config.text("problem_type", known);
  if (problem == known) return;
  config.refuse("problem_type is \"{}\"; with {} only \"{}\" is supported", problem,
                counted(labels, "label"), known);
}

method::ModelSpec read_roberta(const HfFields& config) {
  check_encoder_features(config);
  method::ModelSpec model;
  model.architecture = "roberta";
  model.own = method::kRoberta.options();
  auto& options = model.options<RobertaOptions>();
  model.vocab = config.count("vocab_size", kMaxRows);
  model.hidden = config.count("hidden_size", kMaxWidth);
  model.layers = config.count("num_hidden_layers", 10'000);
  model.heads = config.count("num_attention_heads", 1 << 16);
  options.intermediate = config.count("intermediate_size", 1 << 22);
  const int64_t rows =
      config.find_count("max_position_embeddings", kMaxRows).value_or(kHfRoberta.positions);
  if (rows <= method::kRobertaFirstPosition) {
    config.refuse("max_position_embeddings must be > {}, got {}", method::kRobertaFirstPosition,
                  rows);
  }
  options.positions = rows - method::kRobertaFirstPosition;
  options.token_types = config.find_count("type_vocab_size", 1 << 16).value_or(2);
  options.norm_eps = config.number("layer_norm_eps", 1e-12);
  if (!(options.norm_eps > 0 && options.norm_eps < 1)) {
    config.refuse("layer_norm_eps must be > 0 and < 1, got {}", options.norm_eps);
  }
  model.init_std = config.number("initializer_range", model.init_std);
  options.labels = read_labels(config);
  check_problem(config, options.labels);
  try {
    method::check_roberta(model);
  } catch (const UsageError& error) {
    config.refuse("{}", error.what());
  }
  return model;
}

bool holds_roberta(const method::ModelSpec&) { return true; }

HfJson class_names(int64_t labels) {
  HfJson names = HfJson::object();
  for (int64_t i = 0; i < labels; ++i) names[std::to_string(i)] = fmt::format("LABEL_{}", i);
  return names;
}

HfJson class_numbers(const HfJson& names) {
  HfJson numbers = HfJson::object();
  for (const auto& [number, name] : names.items()) {
    numbers[name.get<std::string>()] = std::stoll(number);
  }
  return numbers;
}

HfJson print_roberta(const HfConfig& config, const char* dtype) {
  const method::ModelSpec& model = config.model;
  const auto& options = model.options<RobertaOptions>();
  const HfJson names = class_names(options.labels);
  HfJson json = {
      {"architectures", HfJson::array({std::string(kHfRoberta.class_name)})},
      {"model_type", std::string(kHfRoberta.model_type)},
      {"vocab_size", model.vocab},
      {"hidden_size", model.hidden},
      {"num_hidden_layers", model.layers},
      {"num_attention_heads", model.heads},
      {"intermediate_size", options.intermediate},
      {"hidden_act", "gelu"},
      {"hidden_dropout_prob", 0.0},
      {"attention_probs_dropout_prob", 0.0},
      {"max_position_embeddings", options.positions + method::kRobertaFirstPosition},
      {"type_vocab_size", options.token_types},
      {"layer_norm_eps", options.norm_eps},
      {"initializer_range", model.init_std},
      {"pad_token_id", kPad},
      {"id2label", names},
      {"label2id", class_numbers(names)},
      {"torch_dtype", dtype},  // 4.x
      {"dtype", dtype},        // 5.x
  };
  if (options.labels == 1) json["problem_type"] = kRegression;
  return json;
}

}  // namespace

const HfArchitecture kHfRoberta = {
    .name = "roberta",
    .model_type = "roberta",
    .class_name = "RobertaForSequenceClassification",
    .positions = 512,
    .read = read_roberta,
    .holds = holds_roberta,
    .print = print_roberta,
};

constexpr std::array kRobertaTable = {&kHfRoberta};
const std::span<const HfArchitecture* const> kRobertaForms = kRobertaTable;

bool is_left_out(const std::string& tensor) {
  return tensor.starts_with("lm_head.") || tensor.starts_with("roberta.pooler.") ||
         tensor == "roberta.embeddings.position_ids" ||
         tensor == "roberta.embeddings.token_type_ids";
}

std::string with_classes(const std::string& config, int64_t labels) {
  HfJson json = parse_json<HfJson>(config);
  const HfJson names = class_names(labels);
  json["architectures"] = HfJson::array({std::string(kHfRoberta.class_name)});
  json["id2label"] = names;
  json["label2id"] = class_numbers(names);
  json.erase("num_labels");
  json.erase("problem_type");
  if (labels == 1) json["problem_type"] = kRegression;
  return print_json(json, {.indent = 2}) + "\n";
}

}  // namespace thinwire::convert
