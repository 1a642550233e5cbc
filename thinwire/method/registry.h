// The table of synchronisation methods. A new method adds its line in registry.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/method/method.h"

namespace thinwire::method {

std::span<const Method* const> all_methods();

// Throws UsageError that lists the known names.
const Method& find_method(std::string_view name);

// The rounds of the recipe's run under its method.
schedule::Rounds rounds_of(const config::Recipe& recipe);

// Prototypes of every method's and optimizer's section, for config::load_recipe and explain_recipe.
config::MethodSections method_sections();

// config::load_recipe with every method's and optimizer's section, and check_choices. Where the
// model comes from elsewhere (train.init), check_choices is for whoever takes it from there.
config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides);

// The own checks of the chosen architecture, method and optimizer. Throws UsageError.
void check_choices(const config::Recipe& recipe);

}  // namespace thinwire::method
