#include "thinwire/config/recipe.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/config/changes.h"
#include "thinwire/config/check.h"
#include "thinwire/config/renamed.h"
#include "thinwire/config/table_list.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

void append_fields(std::string& out, Section& section) {
  Fields fields;
  section.describe(fields);
  for (const Field& field : fields.all()) {
    fmt::format_to(std::back_inserter(out), "{} = {}\n", field.name, print_value(field));
  }
}

}  // namespace

Recipe::Recipe() = default;
Recipe::~Recipe() = default;
Recipe::Recipe(const Recipe& other) { *this = other; }
Recipe::Recipe(Recipe&& other) noexcept = default;
Recipe& Recipe::operator=(Recipe&& other) noexcept = default;

Recipe& Recipe::operator=(const Recipe& other) {
  if (this == &other) return *this;
  run = other.run;
  data = other.data;
  model = other.model;
  adapter = other.adapter;
  train = other.train;
  preference = other.preference;
  privacy = other.privacy;
  optim = other.optim;
  schedule = other.schedule;
  sync = other.sync;
  eval = other.eval;
  checkpoint = other.checkpoint;
  log = other.log;
  links = other.links;
  notices = other.notices;
  given = other.given;
  methods.clear();
  for (const auto& [table, section] : other.methods) methods[table] = section->clone();
  return *this;
}

std::vector<std::pair<std::string, Section*>> Recipe::sections() {
  std::vector<std::pair<std::string, Section*>> all = {
      {"run", &run},         {"data", &data},   {"model", &model},
      {"adapter", &adapter}, {"train", &train}, {"preference", &preference},
      {"privacy", &privacy}, {"optim", &optim}, {"schedule", &schedule},
      {"sync", &sync},       {"eval", &eval},   {"checkpoint", &checkpoint},
      {"log", &log},         {"links", &links}};
  for (const auto& [table, section] : methods) all.emplace_back(table, section.get());
  return all;
}

const Section& Recipe::section(const std::string& table) const {
  const auto found = methods.find(table);
  if (found == methods.end()) throw Error(fmt::format("the recipe has no section [{}]", table));
  return *found->second;
}

Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods, const Check& further) {
  if (path.empty()) return parse_recipe("", "command line", overrides, methods, further);
  if (!file_exists(path)) {
    throw UsageError(fmt::format("there is no recipe file {}", path.string()));
  }
  return parse_recipe(read_text_file(path), path.string(), overrides, methods, further);
}

Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods) {
  return load_recipe(path, overrides, methods, {});
}

std::string print_recipe(const Recipe& recipe) {
  Recipe copy = recipe;
  std::string out;
  for (const auto& [table, section] : copy.sections()) {
    fmt::format_to(std::back_inserter(out), "{}[{}]\n", out.empty() ? "" : "\n", table);
    append_fields(out, *section);
  }
  return out;
}

std::string print_changes(const Recipe& recipe, const Recipe& from) {
  std::string out;
  for (const FieldChange& change :
       first_named(recipe_renames(), recipe, field_changes(from, recipe))) {
    fmt::format_to(std::back_inserter(out), "{} = {}\n", change.field, change.now);
  }
  return out;
}

std::string print_table(const std::string& name, Section& section) {
  std::string out = fmt::format("[[{}]]\n", name);
  append_fields(out, section);
  return out;
}

}  // namespace thinwire::config
