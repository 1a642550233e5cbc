#include "thinwire/method/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/automatic.h"
#include "thinwire/config/check.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/adapters/relora.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/automatic.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {
namespace {

std::vector<const Method*> list_methods() {
  std::vector<const Method*> methods;
  const auto add = [&](const Method& method) { methods.push_back(&method); };
#define THINWIRE_METHOD(Name) std::ranges::for_each(k##Name##Methods, add);
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD
  return methods;
}

std::vector<const Method*>& table() {
  static std::vector<const Method*> methods = list_methods();
  return methods;
}

}  // namespace

std::span<const Method* const> all_methods() { return table(); }

void add_method(const Method& method) {
  if (std::ranges::count(table(), method.name, &Method::name) > 0) {
    throw UsageError(fmt::format("there is a method \"{}\" already", method.name));
  }
  table().push_back(&method);
}

const Method& find_method(std::string_view name) {
  config::StringList known;
  for (const Method* method : all_methods()) {
    if (method->name == name) return *method;
    known.emplace_back(method->name);
  }
  const std::string near = config::nearest_name(name, known);
  throw UsageError(fmt::format("[sync] method must be one of {}, got \"{}\"{}",
                               fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

int64_t speeds_every(const config::Recipe& recipe) {
  constexpr int64_t kLeastSteps = 10;  // a single step takes now more, now less
  const Method& method = find_method(recipe.sync.method);
  const int64_t every = method.sync_every(recipe);
  return method.local_updates ? every : (kLeastSteps + every - 1) / every * every;
}

schedule::Rounds rounds_of(const config::Recipe& recipe) {
  return {recipe.train.steps, find_method(recipe.sync.method).sync_every(recipe)};
}

config::MethodSections method_sections() {
  config::MethodSections sections;
  for (const Method* method : all_methods())
    sections[std::string(method->name)] = method->options();
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    sections[std::string(optimizer->name)] = optimizer->options();
  }
  for (const Architecture* architecture : all_architectures()) {
    sections[std::string(architecture->name)] = architecture->options();
  }
  sections[std::string(kExternal.name)] = kExternal.options();
  sections["relora"] = std::make_unique<ReloraOptions>();
  return sections;
}

namespace {

void check_clusters(const config::SyncSection& sync, int64_t workers) {
  if (sync.clusters <= workers) return;
  throw UsageError(fmt::format("[sync] clusters must be <= [train] workers = {}, got {}", workers,
                               sync.clusters));
}

void check_encoder(const config::Recipe& recipe) {
  const Architecture& architecture = find_architecture(recipe.model.architecture);
  if (!architecture.encodes) return;
  const int64_t positions = architecture.positions(ModelSpec(recipe));
  if (recipe.train.sequence > positions) {
    throw UsageError(fmt::format("[train] sequence must be <= [{}] positions = {}, got {}",
                                 architecture.name, positions, recipe.train.sequence));
  }
  const auto classes = static_cast<size_t>(architecture.outputs(ModelSpec(recipe)));
  const bool numbers = recipe.data.records == config::RecordKind::kNumbers;
  if (numbers != (classes == 1)) {
    throw UsageError(fmt::format("[{}] labels must be {} with [data] records = \"{}\", got {}",
                                 architecture.name,
                                 numbers ? "1, the number that is predicted," : ">= 2",
                                 name_of(recipe.data.records), classes));
  }
  if (recipe.data.labels.size() > classes) {
    throw UsageError(fmt::format("[{}] labels = {}, but [data] labels names {} classes",
                                 architecture.name, classes, recipe.data.labels.size()));
  }
}

}  // namespace

config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides) {
  const auto check = [](const config::Recipe& recipe) {
    if (recipe.train.init.empty() || is_external(recipe)) check_choices(recipe);
  };
  config::Recipe recipe = config::load_recipe(path, overrides, method_sections(), check);
  choose_numbers(recipe);
  return recipe;
}

void check_choices(const config::Recipe& recipe) {
  find_architecture(recipe.model.architecture).check(ModelSpec(recipe));
  check_pairs(recipe);
  check_encoder(recipe);
  check_clusters(recipe.sync, recipe.train.workers);
  find_method(recipe.sync.method).check(recipe);
  find_optimizer(recipe.optim.method).check(recipe);
  check_adapter(recipe);
}

std::string explain_recipe(std::string_view what) {
  config::Choices choices;
  for (const Method* method : all_methods()) {
    choices["sync.method"].emplace_back(method->name, method->sentence);
  }
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    choices["optim.method"].emplace_back(optimizer->name, optimizer->sentence);
  }
  choices["optim.method"].emplace_back(kOwn.name, kOwn.sentence);
  for (const Architecture* architecture : all_architectures()) {
    choices["model.architecture"].emplace_back(architecture->name, architecture->sentence);
  }
  choices["model.architecture"].emplace_back(kExternal.name, kExternal.sentence);
  for (const AdapterFacts& adapter : all_adapters()) {
    choices["adapter.kind"].emplace_back(name_of(adapter.kind), adapter.sentence);
  }
  for (const std::string_view field : config::automatic_fields()) {
    choices[std::string(field)].emplace_back(config::kAuto, rule_of(field));
  }
  return config::explain_recipe(method_sections(), choices, what);
}

}  // namespace thinwire::method
