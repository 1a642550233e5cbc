#include "thinwire/cli/plan/plan_runs.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/cli/options.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {

CLI::Option* add_plan_runs(CLI::App& app, PlanRuns& runs) {
  CLI::Option* folders = app.add_option("runs", runs.runs, "Run folders");
  folders->required()->check(refuse_empty);
  app.add_option("--hold-out", runs.held_out,
                 "Run to predict instead of fitting it; may be repeated")
      ->check(refuse_empty);
  app.add_option("--set", runs.set, "Validation set whose loss to use")->capture_default_str();
  return folders;
}

PlanRun load_plan_run(const std::string& folder, const std::string& set) {
  report::FinishedRun run = report::load_finished_run(folder);
  const auto loss = run.summary.val_loss.find(set);
  if (loss == run.summary.val_loss.end()) {
    throw UsageError(fmt::format("{} has no validation set '{}'; it has {}", folder, set,
                                 fmt::join(report::validation_sets({&run, 1}), ", ")));
  }
  config::Recipe recipe = method::load_recipe(run.folder / "recipe.toml", {});
  const double nats = loss->second;
  return {std::move(run), std::move(recipe), nats};
}

}  // namespace thinwire::cli
