// What the subcommands of `thinwire plan` share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/plan/method_plan.h"
#include "thinwire/report/compare.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace thinwire::cli {

// `thinwire plan` without a subcommand.
void add_plan_methods(CLI::App& plan);
void add_plan_coverage(CLI::App& plan);
void add_plan_distro(CLI::App& plan);
void add_plan_efficiency(CLI::App& plan);
void add_plan_fit(CLI::App& plan);
void add_plan_loss(CLI::App& plan);
void add_plan_memory(CLI::App& plan);
void add_plan_utilization(CLI::App& plan);

struct PlanOutput {
  bool json = false;
  std::string plot;  // file to draw into; empty: none
};
// --json and --plot.
void add_output(CLI::App& app, PlanOutput& output, const std::string& drawn);

// "800 Mbit/s", "0.40 Gbit/s": a line rate.
std::string format_rate(double bit_s);

// Finished runs as `thinwire plan fit` and `plan coverage` take them: some to fit, some to predict.
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

// How the results of `thinwire plan RECIPE` are shown.

// The recommended method, then its reasons; there must be a recommendation.
std::vector<std::string> lines_of_recommendation(const plan::MethodPlan& plan);
nlohmann::ordered_json plan_json(const plan::MethodPlan& plan);
// The recommendation, and the fastest methods or, if `all`, every one that was compared.
void print_plan(const plan::MethodPlan& plan, bool all);
// Draws compute utilisation over the upload rate of the slowest line, scaling all lines alike.
void draw_plan(const plan::MethodPlan& plan, const std::string& file);

// How fast this machine trains, for plans without a given speed.

// FLOP/s of training steps of the recipe's worker, measured here for a few seconds, with a message
// on stderr. `hosts`: it is a member of a run of many hosts, which computes on all cores unless
// train.threads is given. model.vocab must be set. If a step does not fit into memory or would take
// minutes, throws UsageError. Message and error name the `options` that give the speed instead.
double flops_here(const config::Recipe& recipe, bool hosts, std::string_view options);

}  // namespace thinwire::cli
