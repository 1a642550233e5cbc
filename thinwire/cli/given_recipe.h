// The recipe given on a command line.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "thinwire/config/recipe.h"

namespace thinwire::cli {

// Calls method::load_recipe and prints a message for each of the recipe's notices.
config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides);

}  // namespace thinwire::cli
