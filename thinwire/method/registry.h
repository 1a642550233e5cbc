// The table of synchronisation methods. A new method adds a line in registry.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/method/method.h"

namespace thinwire::method {

std::span<const Method* const> all_methods();

// Throws UsageError listing the known names.
const Method& find_method(std::string_view name);

// The rounds of the recipe's run with its method.
schedule::Rounds rounds_of(const config::Recipe& recipe);

// Prototypes of every method's, optimizer's, architecture's and adapter's section, for
// config::load_recipe and explain_recipe.
config::MethodSections method_sections();

// config::load_recipe with all these sections, and check_choices. If the model comes from elsewhere
// (train.init), the code that reads it from there calls check_choices.
config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides);

// Runs the checks that the chosen architecture, method, optimizer and adapter bring. Throws
// UsageError.
void check_choices(const config::Recipe& recipe);

}  // namespace thinwire::method
