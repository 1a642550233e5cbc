// Finished runs as `thinwire plan fit` and `plan coverage` take them: some to fit, some to predict.
#pragma once

#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/report/compare.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace thinwire::cli {

struct PlanRuns {
  std::vector<std::string> runs;  // folders
  std::vector<std::string> held_out;
  std::string set = "validation";  // whose loss is used
};
// The folders, --hold-out and --set. Returns the option of the folders, which is required.
CLI::Option* add_plan_runs(CLI::App& app, PlanRuns& runs);

struct PlanRun {
  report::FinishedRun run;
  config::Recipe recipe;
  double loss = 0;  // nats per token on the set
};
// Throws Error if the folder is not a finished run, UsageError if it lacks the validation set.
PlanRun load_plan_run(const std::string& folder, const std::string& set);

}  // namespace thinwire::cli
