#include "thinwire/recipe_fields.h"

#include <map>
#include <string_view>
#include <variant>

#include "thinwire/config/check.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/values.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire {
namespace {

template <typename Records>
std::vector<std::string> names(const Records& records) {
  std::vector<std::string> all;
  for (const auto* one : records) all.emplace_back(one->name);
  return all;
}

// Of fields that choose from a table that others may add to.
const std::map<std::string_view, std::vector<std::string>>& open_choices() {
  static const std::map<std::string_view, std::vector<std::string>> all = {
      {"sync.method", names(method::all_methods())},
      {"optim.method", names(method::all_optimizers())},
      {"model.architecture", names(method::all_architectures())}};
  return all;
}

std::vector<std::string> choices_of(const std::string& key, const config::Field& field) {
  if (const auto open = open_choices().find(key); open != open_choices().end()) return open->second;
  if (std::holds_alternative<bool*>(field.target)) return {"true", "false"};
  return field.choices;
}

}  // namespace

std::vector<RecipeField> recipe_fields() {
  std::vector<RecipeField> all;
  config::Recipe recipe = config::read_recipe({}, method::method_sections());
  for (const auto& [table, section] : recipe.sections()) {
    config::Fields fields;
    section->describe(fields);
    for (const config::Field& field : fields.all()) {
      all.push_back({.table = table,
                     .name = std::string(field.name),
                     .type = config::type_name(field),
                     .unit = std::string(field.unit),
                     .value = config::print_value(field),
                     .range = config::range_phrase(field),
                     .choices = choices_of(config::key_of(table, field), field),
                     .sentence = std::string(field.sentence)});
    }
  }
  return all;
}

}  // namespace thinwire
