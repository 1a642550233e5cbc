// Reading a recipe under a further check, which knows contradictions that config does not.
#pragma once

#include <functional>

#include "thinwire/config/recipe.h"

namespace thinwire::config {

// Throws UsageError.
using Check = std::function<void(const Recipe& recipe)>;

// As their namesakes of recipe.h. Messages about contradictions, of either kind, begin with the
// file's name, or name as few overrides as bring them about.
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods, const Check& further);
Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods,
                    const Check& further);

}  // namespace thinwire::config
