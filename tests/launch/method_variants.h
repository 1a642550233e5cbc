// The synchronisation methods in all ways that differ in when what is sent and applied, for tests
// of what every one of them promises.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/method.h"

namespace thinwire::launch {

// A method with its defaults, or with options that change when what is sent and applied.
struct Variant {
  const method::Method* method;
  std::string name;
  std::vector<std::string> overrides;
  std::vector<std::string> together = {};  // where there are two workers or more
};

inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

std::vector<Variant> all_variants();

// The tiny recipe (tests/tiny_run.h) of a variant, whose own fields come after `overrides`.
config::Recipe variant_recipe(const Variant& variant, const fs::path& folder,
                              std::vector<std::string> overrides, int workers);

}  // namespace thinwire::launch
