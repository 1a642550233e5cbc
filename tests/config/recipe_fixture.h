// Helpers of the recipe tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"

namespace thinwire::config {

// A section as a method would bring it, or an architecture.
struct PigeonOptions final : SectionOf<PigeonOptions> {
  int64_t birds = 2;
  double miles = 0.5;
  int64_t wings = 0;  // 0: as many as heads
  void describe(Fields& fields) override {
    fields.integer("birds", birds, "birds", 1, 9, "Birds in the air.");
    fields.number_above("miles", miles, "miles", 0, 100, "How far they fly.");
    fields.integer("wings", wings, "", 0, 9, "Their wings; 0 means one a head.");
  }
  void fill_derived(const Recipe& recipe) override {
    if (wings == 0) wings = recipe.model.heads;
  }
};

inline MethodSections pigeon_sections() {
  MethodSections sections;
  sections["pigeon"] = std::make_unique<PigeonOptions>();
  return sections;
}

inline Recipe parse(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  return parse_recipe(toml, "recipes/x.toml", overrides, pigeon_sections());
}

// The message of the UsageError that reading this recipe gives.
inline std::string refusal(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(toml, overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace thinwire::config
