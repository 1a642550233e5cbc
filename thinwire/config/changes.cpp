#include "thinwire/config/changes.h"

#include "thinwire/config/values.h"

namespace thinwire::config {

std::vector<FieldChange> field_changes(const Recipe& before, const Recipe& now) {
  Recipe old_copy = before;
  Recipe new_copy = now;
  const auto old_sections = old_copy.sections();
  const auto new_sections = new_copy.sections();
  std::vector<FieldChange> changes;
  for (size_t s = 0; s < new_sections.size(); ++s) {
    Fields old_fields, new_fields;
    old_sections[s].second->describe(old_fields);
    new_sections[s].second->describe(new_fields);
    for (size_t i = 0; i < new_fields.all().size(); ++i) {
      const Field& field = new_fields.all()[i];
      std::string old_value = print_value(old_fields.all()[i]);
      std::string new_value = print_value(field);
      if (old_value == new_value) continue;
      changes.push_back(
          {new_sections[s].first + "." + field.name, std::move(old_value), std::move(new_value)});
    }
  }
  return changes;
}

}  // namespace thinwire::config
