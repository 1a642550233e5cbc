#include "thinwire/method/combinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/check.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

// Several workers, so that they have something to exchange and clusters differ in size.
const Overrides kBase = {"train.workers=3", "train.batch=6"};

// What may be set besides so that two features go together.
const std::vector<Overrides> kBridges = {
    {},
    {"adapter.targets=*"},
    {"sync.method=diloco"},
    {"distro.update=adamw"},
    {"galore.basis=seeded"},
    {"optim.method=galore", "optim.gradients=projected"},
    {"distro.update=adamw", "optim.gradients=projected", "galore.basis=seeded"},
};

std::string key_of(const std::string& override) { return override.substr(0, override.find('=')); }

// Each field once, with the last value that it is given.
Overrides last_values(const Overrides& overrides) {
  Overrides kept;
  std::set<std::string> seen;
  for (auto one = overrides.rbegin(); one != overrides.rend(); ++one) {
    if (seen.insert(key_of(*one)).second) kept.push_back(*one);
  }
  std::ranges::reverse(kept);
  return kept;
}

Overrides together(std::initializer_list<const Overrides*> parts) {
  Overrides all;
  for (const Overrides* part : parts) all.insert(all.end(), part->begin(), part->end());
  return last_values(all);
}

// What the parser and the command check, one after another.
void check(const config::Recipe& recipe, Command command) {
  config::check_recipe(recipe);
  check_choices(recipe);
  require_initial_model(recipe);
  check_command(recipe, command);
  if (command == Command::kTrain) return;
  if (recipe.train.launcher == config::Launcher::kMpi) check_command(recipe, Command::kSite);
  check_command(recipe, Command::kServe);
}

// Why a recipe is of no use; the features' own fields must have an effect.
Combination attempt(Overrides overrides, Command command, const Overrides& sets) {
  Combination result{.refusal = {}, .overrides = std::move(overrides), .command = command};
  static const config::MethodSections sections = method_sections();
  const config::Recipe recipe = config::read_recipe(result.overrides, sections);
  try {
    check(recipe, command);
  } catch (const UsageError& error) {
    result.refusal = error.what();
    return result;
  }
  for (const std::string& sentence : ignored_fields(recipe)) {
    const bool ours = std::ranges::any_of(
        sets, [&](const std::string& one) { return sentence.starts_with(key_of(one) + " = "); });
    if (!ours) continue;
    result.refusal = sentence;
    result.idle = true;
    break;
  }
  return result;
}

// What two features need, in every way and order, after `bridge`.
std::vector<Overrides> ways_of(const Feature& one, const Feature& other, const Overrides& bridge) {
  std::vector<Overrides> ways;
  for (const Overrides& needs : one.needs) {
    for (const Overrides& others : other.needs) {
      ways.push_back(together({&bridge, &others, &needs}));
      ways.push_back(together({&bridge, &needs, &others}));
    }
  }
  return ways;
}

}  // namespace

std::optional<Combination> combine(const Feature& one, const Feature& other) {
  if (!one.field.empty() && one.field == other.field) return std::nullopt;
  if (one.field.empty() && other.field.empty()) return std::nullopt;
  const Overrides sets = together({&one.sets, &other.sets});
  const Command command =
      std::max(one.command.value_or(Command::kTrain), other.command.value_or(Command::kTrain));
  std::optional<Combination> refused;
  std::set<std::set<std::string>> tried;
  for (const Overrides& bridge : kBridges) {
    for (const Overrides& way : ways_of(one, other, bridge)) {
      Overrides overrides = together({&kBase, &way, &sets});
      if (!tried.insert({overrides.begin(), overrides.end()}).second) continue;
      Combination result = attempt(std::move(overrides), command, sets);
      result.besides = bridge;
      if (result.works()) return result;
      // The reason is why they do not go together as they are; an error says more than that
      // something has no effect.
      const bool says_more = !refused || (refused->idle && !result.idle && bridge.empty());
      if (says_more) refused = std::move(result);
    }
  }
  return refused;
}

}  // namespace thinwire::method
