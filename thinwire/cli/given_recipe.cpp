#include "thinwire/cli/given_recipe.h"

#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {

config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides) {
  config::Recipe recipe = method::load_recipe(path, overrides);
  for (const std::string& notice : recipe.notices) events::print_message(notice);
  return recipe;
}

}  // namespace thinwire::cli
