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

// The same with the model that the run would have: that of train.init, where the recipe names one
// and it is here (else a message says that only the recipe counts).
config::Recipe load_run_recipe(const std::filesystem::path& path,
                               std::span<const std::string> overrides);

}  // namespace thinwire::cli
