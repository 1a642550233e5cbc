// A model as a recipe gives it: the fields of [model] and those specific to its architecture.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/config/sections.h"

namespace thinwire::method {

struct ModelSpec final : config::ModelSection {
  ModelSpec();  // of the default architecture, all fields at their defaults
  // Throws UsageError for an unknown architecture.
  explicit ModelSpec(const config::Recipe& recipe);
  ModelSpec(const ModelSpec& other);
  ModelSpec& operator=(const ModelSpec& other);
  ~ModelSpec() override = default;

  // The architecture's own table, as the type that the architecture gives it.
  template <typename Options>
  const Options& options() const {
    return dynamic_cast<const Options&>(*own);
  }
  template <typename Options>
  Options& options() {
    return dynamic_cast<Options&>(*own);
  }

  // Never null. Complete if the recipe is resolved (config::Section::fill_derived).
  std::unique_ptr<config::Section> own;
};

// Sets [model] and the table of the model's architecture.
void set_model(config::Recipe& recipe, const ModelSpec& model);

// All fields with their values as written in recipes: those of [model], then the architecture's.
std::vector<std::pair<std::string, std::string>> field_values(const ModelSpec& model);

}  // namespace thinwire::method
