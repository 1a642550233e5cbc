#include "thinwire/recipe.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/method/registry.h"

namespace thinwire {

Recipe::Recipe(const std::filesystem::path& file, std::vector<std::string> overrides) {
  config::Recipe recipe = method::load_recipe(file, overrides);
  parts_ = std::make_shared<const Parts>(Parts{file, std::move(overrides), std::move(recipe)});
}

std::string Recipe::get(std::string_view field) const {
  std::string value = config::printed_value(parts_->recipe, field);
  if (value.empty()) {
    throw UsageError(
        fmt::format("a recipe has no field {}; `thinwire recipe --explain` lists them", field));
  }
  return value;
}

std::string Recipe::text() const { return config::print_recipe(parts_->recipe); }

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const method::Method* method : method::all_methods()) names.emplace_back(method->name);
  return names;
}

}  // namespace thinwire
