// thinwire plan: what a run will cost, which method suits which links.
#include "thinwire/cli/plan/plan.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {

void add_plan(CLI::App& app) {
  auto* command = add_command(app, "plan", "Predicts what runs cost, before they start");
  command->require_subcommand(0, 1);
  add_plan_methods(*command);
  add_plan_coverage(*command);
  add_plan_distro(*command);
  add_plan_efficiency(*command);
  add_plan_fit(*command);
  add_plan_loss(*command);
  add_plan_memory(*command);
  add_plan_utilization(*command);
}

void add_output(CLI::App& app, PlanOutput& output, const std::string& drawn) {
  app.add_flag("--json", output.json, "Print JSON in full precision");
  add_plot(app, output.plot, fmt::format("Draw {} into this .png or .svg", drawn));
}

std::string format_rate(double bit_s) {
  return fmt::format("{:.3g} {}bit/s", bit_s / (bit_s < 1e9 ? 1e6 : 1e9), bit_s < 1e9 ? 'M' : 'G');
}

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
