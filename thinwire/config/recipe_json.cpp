#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "thinwire/base/json.h"
#include "thinwire/config/check.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const Field& field) {
  if (const auto* named = std::get_if<NamedTarget>(&field.target)) return named->name();
  return std::visit(
      [](const auto& target) -> Json {
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(target)>>) return *target;
        return {};
      },
      field.target);
}

Json description_of(const Field& field) {
  return {{"type", type_name(field)},     {"unit", field.unit},       {"default", value_of(field)},
          {"range", range_phrase(field)}, {"choices", field.choices}, {"sentence", field.sentence}};
}

// What of_field() gives for each of a table's fields.
Json fields_of(Section& section, Json (*of_field)(const Field& field)) {
  Fields fields;
  section.describe(fields);
  Json all = Json::object();
  for (const Field& field : fields.all()) all[std::string(field.name)] = of_field(field);
  return all;
}

}  // namespace

std::string recipe_json(const Recipe& recipe) {
  Recipe copy = recipe;
  Json tables = Json::object();
  for (const auto& [table, section] : copy.sections()) {
    tables[table] = fields_of(*section, value_of);
  }
  return print_json(tables, {.replace_invalid = true});
}

std::string explain_json(const MethodSections& methods,
                         const std::map<std::string_view, std::string_view>& sentences) {
  Recipe defaults;
  for (const auto& [table, section] : methods) defaults.methods[table] = section->clone();
  Json tables = Json::object();
  for (const auto& [table, section] : defaults.sections()) {
    Json& one = tables[table];
    if (const auto found = sentences.find(table); found != sentences.end()) {
      one = {{"chosen_by", section->chosen_by()}, {"sentence", found->second}};
    }
    one["fields"] = fields_of(*section, description_of);
  }
  return print_json(tables, {.indent = 2});
}

}  // namespace thinwire::config
