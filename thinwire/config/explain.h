// Explanations of recipe fields.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::config {

// Meanings of field values that the field's description does not know: value and sentence, by
// "table.field".
using Choices = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

// Type, unit, default, range and sentence of the fields that `what` names: a table ("sync"), a
// field
// ("sync.method", "workers"), or all (empty). Throws UsageError that says what may have been meant.
std::string explain_recipe(const MethodSections& methods, const Choices& choices,
                           std::string_view what);

}  // namespace thinwire::config
