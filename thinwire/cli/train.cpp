// thinwire train: trains a model as a recipe says, resuming an interrupted run.
#include "thinwire/launch/train.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/live_page.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/model_socket.h"

namespace thinwire::cli {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool restart = false;
  std::string page;
  int model_socket = -1;
  bool json = false;
};

void tell_finished(const events::MessageSink& message, const std::string& folder) {
  message(fmt::format(
      "{} is finished already (a higher train.steps continues it, --restart starts over)", folder));
}

// For the program at the other end of a socket, which computes the model and hears the result.
void train_for_peer(const config::Recipe& recipe, const TrainArguments& arguments) {
  train::ModelSocket socket(arguments.model_socket, interrupts().any,
                            [] { end_by_signal(SIGTERM); });
  socket.report([&] {
    launch::TrainOptions options;
    options.restart = arguments.restart;
    options.stop = &socket.stop();
    options.on_start = [&] {
      catch_interrupts();
      socket.begin();
    };
    options.listen = [&](const config::Recipe&, int64_t) { return &socket; };
    options.display = socket.display();
    train::OwnModel model = socket.model();
    // The peers of several ranks may have different weights; the recipe has the same for all.
    if (recipe.train.launcher == config::Launcher::kMpi) model.initial = {};
    options.own_model = &model;
    launch::TrainResult result = launch::train(recipe, options);
    if (result.outcome == launch::Outcome::kAlreadyFinished) {
      tell_finished(options.display.message, recipe.run.dir);
    }
    const bool elsewhere = result.outcome == launch::Outcome::kElsewhere;
    const bool finished =
        elsewhere ? result.step == recipe.train.steps : result.outcome != launch::Outcome::kStopped;
    return events::RunResult{result.step, finished, recipe.run.dir, std::move(result.summary),
                             elsewhere};
  });
}

void run_train(const TrainArguments& arguments) {
  const config::Recipe recipe = method::load_recipe(arguments.recipe, arguments.overrides);
  if (arguments.model_socket >= 0) return train_for_peer(recipe, arguments);
  LivePage page(arguments.page);
  launch::TrainOptions options;
  options.display = events::terminal_display();
  options.restart = arguments.restart;
  options.stop = &interrupts().any;
  options.on_start = [] { catch_interrupts(); };
  options.listen = [&page](const config::Recipe& resolved, int64_t first_step) {
    return page.open("train", resolved, first_step, std::nullopt);
  };
  const launch::TrainResult result = launch::train(recipe, options);
  if (result.outcome == launch::Outcome::kElsewhere) return;
  if (result.outcome == launch::Outcome::kStopped) {
    const std::string where =
        result.step == 0 ? "before the first step" : fmt::format("after step {}", result.step);
    report_stop(fmt::format("stopped {} of {}; the same command resumes from there", where,
                            recipe.train.steps),
                recipe.train.launcher == config::Launcher::kMpi);
  }
  if (result.outcome == launch::Outcome::kAlreadyFinished) {
    tell_finished(events::print_message, recipe.run.dir);
  }
  if (arguments.json) {
    write_output(events::result_line({result.step, true, recipe.run.dir, result.summary}) + "\n");
  } else {
    print_run_result(result.summary, recipe.run.dir);
  }
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command =
      add_command(app, "train", "Trains a model as a recipe says, or resumes where it was stopped");
  const auto arguments = std::make_shared<TrainArguments>();
  add_recipe_file(*command, arguments->recipe);
  add_overrides(*command, arguments->overrides);
  command->add_flag("--restart", arguments->restart,
                    "Start over, removing what the run folder holds from an earlier run");
  add_page_option(*command, arguments->page);
  add_model_socket(*command, arguments->model_socket);
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  add_quiet_flag(command);
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace thinwire::cli
