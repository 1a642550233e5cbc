
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {
namespace {

// Which fields are meaningless, and why: "table.field", or "table." for a whole table.
struct Rule {
  std::string names;
  std::string reason;
};

bool covers(const Rule& rule, const std::string& field) {
  return rule.names == field || rule.names == field.substr(0, field.find('.') + 1);
}

void add_schedule(const config::Recipe& recipe, std::vector<Rule>& rules) {
  const config::ScheduleKind kind = recipe.schedule.kind;
  const std::string why = fmt::format("schedule.kind is {}", name_of(kind));
  if (kind != config::ScheduleKind::kWsd) rules.push_back({"schedule.decay", why});
  if (kind == config::ScheduleKind::kConstant) rules.push_back({"schedule.final_ratio", why});
}

void add_train(const config::TrainSection& train, std::vector<Rule>& rules) {
  if (!train.offload) rules.push_back({"train.offload_dir", "train.offload is false"});
}

void add_data(const config::DataSection& data, std::vector<Rule>& rules) {
  std::string why;
  if (data.vocabulary == config::VocabularyKind::kByte) why = "data.vocabulary is byte";
  if (!data.vocabulary_model.empty()) why = "data.vocabulary_model is given";
  if (!why.empty()) {
    for (const char* field : {"type", "size", "sample_bytes"}) {
      rules.push_back({fmt::format("data.vocabulary_{}", field), why});
    }
  }
  if (data.vocabulary == config::VocabularyKind::kByteBpe && why.empty()) {
    rules.push_back({"data.vocabulary_type", "data.vocabulary is byte_bpe"});
  }
  using config::RecordKind;
  const RecordKind records = data.records;
  const std::string why_records = fmt::format("data.records is {}", name_of(records));
  const auto ignore = [&](std::initializer_list<const char*> fields) {
    for (const char* field : fields) rules.push_back({field, why_records});
  };
  const bool prompts = records == RecordKind::kPrompts, chats = records == RecordKind::kChats;
  const bool pairs = records == RecordKind::kPreferences, text = records == RecordKind::kText;
  const bool labelled = is_labelled(records);
  if (!prompts) ignore({"data.answer_field"});
  if (!prompts && !pairs) ignore({"data.prompt_field"});
  if (!chats) ignore({"data.messages_field"});
  if (!has_chats(records)) ignore({"data.chat_template"});
  if (!labelled) ignore({"data.pair_field", "data.label_field"});
  if (records != RecordKind::kLabels) ignore({"data.labels"});
  if (!text) ignore({"data.document"});
  if (!text && !labelled) ignore({"data.text_field"});
  if (!pairs) ignore({"preference."});
  if (data.validation_fraction == 0) {
    rules.push_back({"data.validation_block", "data.validation_fraction is 0"});
  }
}

// Fields of [model] that the architecture does not have, and the tables of the others.
void add_model(config::ModelSection model, std::vector<Rule>& rules) {
  constexpr std::array<std::string_view, 5> kCommon = {"architecture", "init_std", "recompute",
                                                       "block_inputs", "vocab_slabs"};
  const Architecture& architecture = find_architecture(model.architecture);
  const auto has = [](std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  config::Fields fields;
  model.describe(fields);
  for (const config::Field& field : fields.all()) {
    if (has(kCommon, field.name) || has(architecture.shape_fields, field.name) ||
        has(architecture.arithmetic_fields, field.name)) {
      continue;
    }
    rules.push_back(
        {config::key_of("model", field), "model.architecture is " + model.architecture});
  }
  const auto ignore = [&](const Architecture& other) {
    if (&other == &architecture) return;
    rules.push_back(
        {fmt::format("{}.", other.name), "model.architecture is " + model.architecture});
  };
  for (const Architecture* other : all_architectures()) ignore(*other);
  ignore(kExternal);
}

// Why there is no optimizer: DisTrO's own updates replace it. Empty if there is one.
std::string without_optimizer(const config::Recipe& recipe) {
  if (recipe.sync.method != kDistro.name && recipe.sync.within != config::Within::kDistro)
    return {};
  const auto& distro = recipe.section<DistroOptions>("distro");
  if (distro.update == DistroUpdate::kAdamW || distro.local_update == DistroUpdate::kAdamW)
    return {};
  return fmt::format("distro.update is {}, which needs no optimizer", name_of(distro.update));
}

void add_optimizers(const config::Recipe& recipe, std::vector<Rule>& rules) {
  if (takes_own_steps(recipe)) {
    for (const char* field : {"lr", "weight_decay", "clip", "clip_by", "state"}) {
      rules.push_back({fmt::format("optim.{}", field), "optim.method is own"});
    }
    rules.push_back({"schedule.", "optim.method is own"});
  }
  const std::string none = without_optimizer(recipe);
  if (!none.empty()) {
    rules.push_back({"optim.method", none});
    rules.push_back({"optim.state", none});
    rules.push_back({"optim.bases", none});
  }
  const OptimizerSpec* chosen = &find_optimizer(recipe.optim.method);
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    if (!none.empty()) {
      rules.push_back({fmt::format("{}.", optimizer->name), none});
    } else if (optimizer != chosen && optimizer != chosen->rest) {
      rules.push_back(
          {fmt::format("{}.", optimizer->name), fmt::format("optim.method is {}", chosen->name)});
    }
  }
}

void add_distro(const config::Recipe& recipe, std::vector<Rule>& rules) {
  const DistroUpdate update = recipe.section<DistroOptions>("distro").update;
  if (update == DistroUpdate::kMuon) return;
  for (const char* field : {"distro.muon_momentum", "distro.muon_scale"}) {
    rules.push_back({field, fmt::format("distro.update is {}", name_of(update))});
  }
}

void add_adapter(const config::AdapterSection& adapter, std::vector<Rule>& rules) {
  const std::string why = fmt::format("adapter.kind is {}", name_of(adapter.kind));
  if (!facts_of(adapter).merges) rules.push_back({"relora.", why});
  if (!is_adapted(adapter)) rules.push_back({"adapter.", why});
}

std::vector<Rule> rules_of(const config::Recipe& recipe) {
  std::vector<Rule> rules;
  for (const Method* method : all_methods()) {
    if (method->name == recipe.sync.method || method->name == name_of(recipe.sync.within)) continue;
    rules.push_back(
        {fmt::format("{}.", method->name), fmt::format("sync.method is {}", recipe.sync.method)});
  }
  add_schedule(recipe, rules);
  add_train(recipe.train, rules);
  add_data(recipe.data, rules);
  add_optimizers(recipe, rules);
  add_model(recipe.model, rules);
  add_distro(recipe, rules);
  add_adapter(recipe.adapter, rules);
  if (!recipe.privacy.noisy()) rules.push_back({"privacy.delta", "privacy.noise is 0"});
  if (recipe.optim.clip == 0) rules.push_back({"optim.clip_by", "optim.clip is 0"});
  if (recipe.eval.patience == 0 && !recipe.checkpoint.best) {
    rules.push_back({"eval.watch", "neither eval.patience nor checkpoint.best is set"});
  }
  if (!recipe.train.init.empty()) {
    rules.push_back({"model.init_std", "train.init gives the weights"});
  }
  if (recipe.train.workers == 1 && recipe.links.step_s == 0) {
    for (const char* field : {"delay_s", "loss", "members"}) {
      rules.push_back({fmt::format("links.{}", field), "one worker sends nothing"});
    }
  }
  return rules;
}

}  // namespace

std::vector<std::string> ignored_fields(const config::Recipe& recipe) {
  const std::vector<Rule> rules = rules_of(recipe);
  config::Recipe defaults;
  defaults.methods = method_sections();
  std::vector<std::string> sentences;
  for (const config::FieldChange& change : config::field_changes(defaults, recipe)) {
    const auto rule = std::ranges::find_if(
        rules, [&](const Rule& candidate) { return covers(candidate, change.field); });
    if (rule == rules.end() || !recipe.given.contains(change.field)) continue;
    sentences.push_back(
        fmt::format("{} = {} is ignored: {}", change.field, change.now, rule->reason));
  }
  return sentences;
}

}  // namespace thinwire::method
