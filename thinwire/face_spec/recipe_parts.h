// What the public Recipe (thinwire/recipe.h) is made of, for the sources of the other public
// headers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/recipe.h"

namespace thinwire {

struct Recipe::Parts {
  std::filesystem::path file;
  std::vector<std::string> overrides;
  config::Recipe recipe;
};

}  // namespace thinwire
