#include "thinwire/config/renamed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

std::string_view table_of(std::string_view key) { return key.substr(0, key.find('.')); }

bool is_table(std::string_view key) { return key.find('.') == std::string_view::npos; }

// Follows a name through all renames, in one direction: a field's own rename comes before that of
// its table.
std::string follow(std::span<const RenamedKey> keys, std::string_view key,
                   std::string_view RenamedKey::*from, std::string_view RenamedKey::*to) {
  std::string name(key);
  for (size_t hop = 0; hop < keys.size(); ++hop) {
    const auto own =
        std::ranges::find_if(keys, [&](const RenamedKey& one) { return one.*from == name; });
    if (own != keys.end()) {
      name = (*own).*to;
      continue;
    }
    const auto table = std::ranges::find_if(
        keys, [&](const RenamedKey& one) { return one.*from == table_of(name); });
    if (table == keys.end()) break;
    name = std::string((*table).*to) + name.substr(table_of(name).size());
  }
  return name;
}

std::string follow(std::span<const RenamedValue> values, std::string_view field,
                   std::string_view value, std::string_view RenamedValue::*from,
                   std::string_view RenamedValue::*to) {
  std::string name(value);
  for (size_t hop = 0; hop < values.size(); ++hop) {
    const auto found = std::ranges::find_if(
        values, [&](const RenamedValue& one) { return one.field == field && one.*from == name; });
    if (found == values.end()) break;
    name = (*found).*to;
  }
  return name;
}

// "[table]" or "table.field".
std::string shown(std::string_view key) {
  return is_table(key) ? fmt::format("[{}]", key) : std::string(key);
}

// All fields by their first names, in the order in which recipes were printed then: first the
// tables that every recipe has, in their order, then the others by name.
StringList first_order(const Renames& renames, Recipe recipe) {
  StringList tables;
  StringList all;
  for (const auto& [table, section] : recipe.sections()) {
    if (!recipe.methods.contains(table)) tables.push_back(renames.first_key(table));
    Fields fields;
    section->describe(fields);
    for (const Field& field : fields.all()) {
      all.push_back(renames.first_key(key_of(table, field)));
    }
  }
  const auto rank = [&](const std::string& key) {
    const std::string table(table_of(key));
    const auto own = std::ranges::find(tables, table) - tables.begin();
    return std::pair(own, own == std::ssize(tables) ? table : std::string());
  };
  std::ranges::stable_sort(all, {}, rank);
  for (const RenamedKey& key : renames.keys) {
    if (key.behind.empty()) continue;
    const auto moved = std::ranges::find(all, key.before);
    if (moved == all.end()) continue;
    all.erase(moved);
    const auto place = std::ranges::find(all, key.behind);
    all.insert(place == all.end() ? place : place + 1, std::string(key.before));
  }
  return all;
}

}  // namespace

std::string Renames::present_key(std::string_view key) const {
  return follow(keys, key, &RenamedKey::before, &RenamedKey::now);
}

std::string Renames::first_key(std::string_view key) const {
  return follow(keys, key, &RenamedKey::now, &RenamedKey::before);
}

std::string Renames::present_value(std::string_view field, std::string_view value) const {
  return follow(values, field, value, &RenamedValue::before, &RenamedValue::now);
}

std::string Renames::first_value(std::string_view field, std::string_view value) const {
  return follow(values, field, value, &RenamedValue::now, &RenamedValue::before);
}

std::string Renames::present_override(std::string_view text) const {
  const size_t equals = std::min(text.find('='), text.size());
  return present_key(text.substr(0, equals)).append(text.substr(equals));
}

std::string Renames::renamed_from(std::string_view name) const {
  if (present_key(name) != name) return std::string(name);
  for (const RenamedKey& key : keys) {
    if (!is_table(key.before) && key.before.substr(key.before.find('.') + 1) == name) {
      return std::string(key.before);
    }
  }
  return {};
}

void NamesRead::note(std::string notice) {
  if (std::ranges::find(notices_, notice) == notices_.end()) notices_.push_back(std::move(notice));
}

std::string NamesRead::key(std::string_view given) {
  std::string present = renames_.present_key(given);
  const auto [known, is_new] = given_.emplace(present, given);
  if (!is_new && known->second != given) {
    throw UsageError(fmt::format("{} and {} are the same; give one of them, preferably {}",
                                 shown(known->second), shown(given), shown(present)));
  }
  if (present != given) {
    const bool whole_table = std::ranges::none_of(
        renames_.keys, [&](const RenamedKey& one) { return one.before == given; });
    note(whole_table
             ? fmt::format("{} is now called {}", shown(table_of(given)), shown(table_of(present)))
             : fmt::format("{} is now called {}", shown(given), shown(present)));
  }
  return present;
}

std::string NamesRead::value(std::string_view field, const std::string& given) {
  std::string present = renames_.present_value(field, given);
  if (present != given) {
    note(
        fmt::format("{} = {} is now called {}", field, print_string(given), print_string(present)));
  }
  return present;
}

std::vector<FieldChange> first_named(const Renames& renames, const Recipe& recipe,
                                     std::vector<FieldChange> changes) {
  const StringList order = first_order(renames, recipe);
  for (FieldChange& change : changes) {
    for (const RenamedValue& value : renames.values) {
      if (value.field != change.field) continue;
      for (std::string* text : {&change.before, &change.now}) {
        if (*text == print_string(value.now)) {
          *text = print_string(renames.first_value(value.field, value.now));
        }
      }
    }
    change.field = renames.first_key(change.field);
  }
  std::ranges::stable_sort(changes, {}, [&](const FieldChange& change) {
    return std::ranges::find(order, change.field) - order.begin();
  });
  return changes;
}

const Renames& recipe_renames() {
  // Optimizers had their fields in [optim], and Llama in [model], before they had tables of their
  // own.
  static constexpr std::array<RenamedKey, 11> kKeys = {
      {{"train.engine", "train.launcher"},
       {"sparse", "sparseloco"},
       {"optim.beta1", "adamw.beta1", "optim.lr"},
       {"optim.beta2", "adamw.beta2", "optim.beta1"},
       {"optim.eps", "adamw.eps", "optim.beta2"},
       {"optim.muon_lr", "muon.lr", "optim.clip"},
       {"optim.muon_momentum", "muon.momentum", "optim.muon_lr"},
       {"model.kv_heads", "llama.kv_heads", "model.heads"},
       {"model.intermediate", "llama.intermediate", "model.kv_heads"},
       {"model.rope_theta", "llama.rope_theta", "model.intermediate"},
       {"model.norm_eps", "llama.norm_eps", "model.rope_theta"}}};
  static constexpr std::array<RenamedValue, 2> kValues = {
      {{"train.launcher", "local", "threads"}, {"sync.method", "sparse", "sparseloco"}}};
  static constexpr Renames kRenames = {kKeys, kValues};
  return kRenames;
}

}  // namespace thinwire::config
