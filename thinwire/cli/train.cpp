// thinwire train: trains a model as a recipe says, resuming an interrupted run.
#include "thinwire/launch/train.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"

namespace thinwire::cli {
namespace {

struct Arguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool restart = false;
};

void print_result(const events::Summary& summary, const std::string& folder) {
  const std::string what = events::describe_train_loss(summary);
  fmt::print(
      "{}: {}, {} tokens, training loss {}", folder, counted(summary.steps, "step"),
      format_count(static_cast<double>(summary.tokens)),
      std::isnan(summary.train_loss) ? what : fmt::format("{:.4f} ({})", summary.train_loss, what));
  for (const auto& [name, loss] : summary.val_loss)
    fmt::print(", {} loss {:.4f}", name, without_nan_sign(loss));
  for (const auto& [name, score] : summary.scores) fmt::print(", {} {:.4f}", name, score);
  fmt::print(", {}, digest {}\n", format_seconds(summary.seconds), summary.digest);
  if (summary.compute_utilization > 0) {
    fmt::print("over the simulated links: {}, {:.1f} % of it spent computing\n",
               format_seconds(summary.seconds_over_links), 100 * summary.compute_utilization);
  }
}

// A rank that ended by a signal would look like one that crashed.
[[noreturn]] void report_stop(const config::Recipe& recipe, int64_t step) {
  const std::string message = fmt::format(
      "stopped after step {} of {}; the same command resumes from there", step, recipe.train.steps);
  if (recipe.train.launcher == "mpi") throw Error(message);
  throw Interrupted(message);
}

void run(const Arguments& arguments) {
  const config::Recipe recipe = method::load_recipe(arguments.recipe, arguments.overrides);
  const launch::TrainResult result = launch::train(
      recipe, {.restart = arguments.restart, .stop = &interrupts().any, .on_start = [] {
                 catch_interrupts();
               }});
  if (result.outcome == launch::Outcome::kElsewhere) return;
  if (result.outcome == launch::Outcome::kStopped) report_stop(recipe, result.step);
  if (result.outcome == launch::Outcome::kAlreadyFinished) {
    events::print_message(fmt::format(
        "{} is finished already (a higher train.steps continues it, --restart starts over)",
        recipe.run.dir));
  }
  print_result(result.summary, recipe.run.dir);
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command =
      add_command(app, "train", "Trains a model as a recipe says, or resumes where it was stopped");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("recipe", arguments->recipe, "Recipe file (TOML)")
      ->required()
      ->check(existing_file());
  command->add_option("overrides", arguments->overrides, "Recipe fields, table.field=value");
  command->add_flag("--restart", arguments->restart,
                    "Start over, removing what the run folder holds from an earlier run");
  add_quiet_flag(command);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace thinwire::cli
