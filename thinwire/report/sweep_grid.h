// The grid file of `thinwire sweep`:
//
//   recipe = "recipes/tiny.toml"         # relative to the working directory, as in thinwire train
//   seeds = [1, 2]                       # optional; values of run.seed
//   [fixed]                              # optional; fields all runs share
//   "train.steps" = 200
//   [grid]                               # optional; every combination of the lists
//   "optim.lr" = [1e-3, 3e-3]
//   [[points]]                           # optional; explicit combinations
//   "sync.method" = "distro"
//   "distro.k" = 8
//
// The runs are points x grid x seeds. Keys are recipe fields, quoted or as tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire::report {

// A recipe field and its value, written as an override takes it.
using FieldValue = std::pair<std::string, std::string>;

struct Grid {
  std::string origin;  // the grid file, for messages
  fs::path recipe;
  std::vector<FieldValue> fixed;
  // The fields that the sweep varies, in the order of the file; every point has a value for each of
  // these that applies to it.
  std::vector<std::string> swept;
  std::vector<std::vector<FieldValue>> points;  // at least one, possibly empty
  std::vector<std::string> seeds;               // empty: the recipe's own
};

// Throws UsageError naming file, key, value and what would be right.
Grid parse_grid(std::string_view toml, std::string_view origin);
Grid load_grid(const fs::path& file);

}  // namespace thinwire::report
