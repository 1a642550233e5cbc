// How one recipe differs from another, field by field.
#pragma once

#include <string>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::config {

// A field whose value is another; values as a recipe file writes them.
struct FieldChange {
  std::string field;  // "table.field"
  std::string before;
  std::string now;
};

// In the order in which print_recipe prints. Both recipes were read with the same method sections.
std::vector<FieldChange> field_changes(const Recipe& before, const Recipe& now);

}  // namespace thinwire::config
