// Reading a recipe with an additional check, for contradictions that only higher layers can see.
#pragma once

#include <functional>

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

}  // namespace thinwire::config
