// The recipe of a command line.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "thinwire/config/recipe.h"

namespace thinwire::cli {

// method::load_recipe, and a message for each of the recipe's notices.
config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides);

}  // namespace thinwire::cli
