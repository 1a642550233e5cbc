// How one recipe differs from another, field by field.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"

namespace thinwire::config {

// Calls `visit` for each field, named "table.field", with its value in `one` and in `other`, in the
// order in which print_recipe prints. Both recipes must have been read with the same method
// sections.
using FieldPair =
    std::function<void(const std::string& name, const Field& one, const Field& other)>;
void visit_fields(Recipe& one, Recipe& other, const FieldPair& visit);

// The value of a field, "table.field", as a recipe file writes it; empty if there is no such field.
std::string printed_value(Recipe recipe, std::string_view field);

// A field whose value differs; values are as a recipe file writes them.
struct FieldChange {
  std::string field;  // "table.field"
  std::string before;
  std::string now;
};

// In the order of visit_fields.
std::vector<FieldChange> field_changes(const Recipe& before, const Recipe& now);

}  // namespace thinwire::config
