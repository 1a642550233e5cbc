#include "thinwire/config/changes.h"

#include "thinwire/config/values.h"

namespace thinwire::config {

void visit_fields(Recipe& one, Recipe& other, const FieldPair& visit) {
  const auto sections = one.sections();
  const auto other_sections = other.sections();
  for (size_t s = 0; s < sections.size(); ++s) {
    Fields fields, other_fields;
    sections[s].second->describe(fields);
    other_sections[s].second->describe(other_fields);
    for (size_t i = 0; i < fields.all().size(); ++i) {
      const Field& field = fields.all()[i];
      visit(key_of(sections[s].first, field), field, other_fields.all()[i]);
    }
  }
}

std::vector<FieldChange> field_changes(const Recipe& before, const Recipe& now) {
  Recipe old_copy = before;
  Recipe new_copy = now;
  std::vector<FieldChange> changes;
  visit_fields(old_copy, new_copy,
               [&](const std::string& name, const Field& old, const Field& field) {
                 std::string old_value = print_value(old);
                 std::string new_value = print_value(field);
                 if (old_value == new_value) return;
                 changes.push_back({name, std::move(old_value), std::move(new_value)});
               });
  return changes;
}

std::string printed_value(Recipe recipe, std::string_view field) {
  for (const auto& [table, section] : recipe.sections()) {
    Fields fields;
    section->describe(fields);
    for (const Field& one : fields.all()) {
      if (key_of(table, one) == field) return print_value(one);
    }
  }
  return {};
}

}  // namespace thinwire::config
