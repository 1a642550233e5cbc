// Reading a recipe with an additional check, for contradictions that only higher layers can see;
// which overrides cause one; explanations of fields; and both, recipes and explanations, in JSON.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/renamed.h"

namespace thinwire::config {

// Throws UsageError.
using Check = std::function<void(const Recipe& recipe)>;

// Like the functions of the same name in recipe.h. Messages about contradictions of either kind
// begin with the file's name, or name the few overrides that cause them.
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods, const Check& further);
Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods,
                    const Check& further);

// The same with a given table of renames.
Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods,
                    const Check& further, const Renames& renames);

// A recipe with these overrides of the defaults, without a look at contradictions.
Recipe read_recipe(std::span<const std::string> overrides, const MethodSections& methods);

// Which of many overrides cause a contradiction.

// What is wrong with a recipe under these overrides; empty if nothing is.
using Complaint = std::function<std::string(std::span<const std::string> overrides)>;

// A smallest set of overrides, in their order, that still causes the contradiction seen under all
// of them: leaving out any one of the set removes it. Empty if the contradiction exists without
// overrides. Two contradictions are the same if their messages differ only in numbers and in texts
// in double quotes.
StringList blamed_overrides(StringList overrides, const Complaint& complaint);

// Explanations of recipe fields.

// Meanings of field values that the field's description does not know: value and sentence, by
// "table.field".
using Choices = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

// Type, unit, default, range and sentence of the fields that `what` names: a table ("sync"), a
// field ("sync.method", "workers"), or all (empty). Throws UsageError that says what may have been
// meant.
std::string explain_recipe(const MethodSections& methods, const Choices& choices,
                           std::string_view what);

// A text in lines of at most `columns` columns, unless a word is longer: the first begins with
// `first`, the others with `more`. Each ends in a newline.
std::string wrapped(std::string_view text, std::string_view first, std::string_view more,
                    size_t columns);

// Recipes and explanations in JSON, for programs: the Python package reads both.

// The value of every field, {"run": {"name": "run", …}, …}: a number, a text, true or false, or a
// list of texts. Text that is no UTF-8 has U+FFFD instead.
std::string recipe_json(const Recipe& recipe);

// {"distro": {"chosen_by": "sync.method", "sentence": …, "fields": {"k": {"type": "integer",
// "unit": "", "default": 32, "range": ">= 1", "choices": [], "sentence": …}, …}}, …}. Only tables
// that a choice brings have the first two. sentences: what choices do, by the name of their table.
std::string explain_json(const MethodSections& methods,
                         const std::map<std::string_view, std::string_view>& sentences);

}  // namespace thinwire::config
