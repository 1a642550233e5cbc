#include "thinwire/method/ignored.h"

#include <fmt/format.h>

#include "thinwire/config/values.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

// Why a field means nothing, and which ones: "table.field", or "table." for all of a table.
struct Rule {
  std::string names;
  std::string reason;
};

bool covers(const Rule& rule, const std::string& table, const std::string& field) {
  return rule.names == table + "." || rule.names == table + "." + field;
}

void add_schedule(const config::Recipe& recipe, std::vector<Rule>& rules) {
  const std::string& kind = recipe.schedule.kind;
  if (kind != "wsd") rules.push_back({"schedule.decay", "schedule.kind is " + kind});
  if (kind == "constant") rules.push_back({"schedule.final_ratio", "schedule.kind is constant"});
}

void add_data(const config::DataSection& data, std::vector<Rule>& rules) {
  std::string why;
  if (data.vocabulary == "byte") why = "data.vocabulary is byte";
  if (!data.vocabulary_model.empty()) why = "data.vocabulary_model is given";
  if (!why.empty()) {
    for (const char* field : {"type", "size", "sample_bytes"}) {
      rules.push_back({fmt::format("data.vocabulary_{}", field), why});
    }
  }
  if (data.validation_fraction == 0) {
    rules.push_back({"data.validation_block", "data.validation_fraction is 0"});
  }
}

// DisTrO's own updates take the place of the optimizer's.
void add_optimizer(const config::Recipe& recipe, std::vector<Rule>& rules) {
  if (recipe.sync.method != "distro" && recipe.sync.within != "distro") return;
  const auto& distro = recipe.section<DistroOptions>("distro");
  if (distro.update == "adamw" || distro.local_update == "adamw") return;
  for (const char* field : {"method", "beta1", "beta2", "eps", "muon_lr", "muon_momentum"}) {
    rules.push_back({fmt::format("optim.{}", field),
                     fmt::format("distro.update is {}, which needs no optimizer", distro.update)});
  }
}

std::vector<Rule> rules_of(const config::Recipe& recipe) {
  std::vector<Rule> rules;
  for (const Method* method : all_methods()) {
    if (method->name == recipe.sync.method || method->name == recipe.sync.within) continue;
    rules.push_back(
        {fmt::format("{}.", method->name), fmt::format("sync.method is {}", recipe.sync.method)});
  }
  add_schedule(recipe, rules);
  add_data(recipe.data, rules);
  add_optimizer(recipe, rules);
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
  config::Recipe given = recipe;
  config::Recipe defaults;
  defaults.methods = method_sections();
  std::vector<std::string> sentences;
  const auto sections = given.sections();
  const auto default_sections = defaults.sections();
  for (size_t s = 0; s < sections.size(); ++s) {
    config::Fields fields, default_fields;
    sections[s].second->describe(fields);
    default_sections[s].second->describe(default_fields);
    for (size_t i = 0; i < fields.all().size(); ++i) {
      const config::Field& field = fields.all()[i];
      const std::string value = config::print_value(field);
      if (value == config::print_value(default_fields.all()[i])) continue;
      for (const Rule& rule : rules) {
        if (!covers(rule, sections[s].first, field.name)) continue;
        sentences.push_back(fmt::format("{}.{} = {} is ignored: {}", sections[s].first, field.name,
                                        value, rule.reason));
        break;
      }
    }
  }
  return sentences;
}

}  // namespace thinwire::method
