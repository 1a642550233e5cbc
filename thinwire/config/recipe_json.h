// Recipes and the descriptions of their fields in JSON, for programs: the Python package reads
// both.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "thinwire/config/recipe.h"

namespace thinwire::config {

// The value of every field, {"run": {"name": "run", …}, …}: a number, a text, true or false, or a
// list of texts. Text that is no UTF-8 has U+FFFD instead.
std::string recipe_json(const Recipe& recipe);

// What recipe --explain prints: {"distro": {"chosen_by": "sync.method", "sentence": …, "fields":
// {"k": {"type": "integer", "unit": "", "default": 32, "range": ">= 1", "choices": [],
// "sentence": …}, …}}, …}. Only tables that a choice brings have the first two. sentences: what
// choices do, by the name of their table.
std::string explain_json(const MethodSections& methods,
                         const std::map<std::string_view, std::string_view>& sentences);

}  // namespace thinwire::config
