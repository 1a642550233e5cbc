#include "thinwire/cli/given_recipe.h"

#include <fmt/format.h>

#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::cli {

config::Recipe load_given_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> overrides) {
  config::Recipe recipe = method::load_recipe(path, overrides);
  for (const std::string& notice : recipe.notices) events::print_message(notice);
  return recipe;
}

config::Recipe load_run_recipe(const std::filesystem::path& path,
                               std::span<const std::string> overrides) {
  config::Recipe recipe = load_given_recipe(path, overrides);
  if (std::filesystem::exists(recipe.train.init)) {
    train::take_initial_model(recipe);
  } else if (!recipe.train.init.empty()) {
    method::check_choices(recipe);
    events::print_message(fmt::format(
        "[train] init: there is no {} here, so the model is assumed to be as [model] describes it",
        recipe.train.init));
  }
  return recipe;
}

}  // namespace thinwire::cli
