// thinwire sweep: a recipe x values x seeds, one process per run, resumable after any interruption.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/events/progress.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::cli {
namespace {

struct SweepArguments {
  std::string grid;
  std::string out;
  int jobs = 0;
  std::string program;
};

// The program that is running now, even if its file has since been replaced by a newer build.
constexpr const char* kOwnProgram = "/proc/self/exe";

constexpr const char* kGridHelp =
    "A grid file names a recipe and what to vary, for example:\n\n  recipe = "
    "\"recipes/tiny.toml\"\n  seeds = [1, 2]                # optional: values of run.seed\n  "
    "[fixed]                       # optional: fields that all runs have\n  train.steps = 400\n  "
    "[grid]                        # optional: every combination of the lists is a run\n  optim.lr "
    "= [1e-3, 3e-3]\n  [[points]]                    # optional: fields that vary together\n  "
    "sync.method = \"distro\"\n  distro.k = 32\n\nThe same command resumes an interrupted sweep. "
    "More in docs/sweeps.md.";

void report_end(const report::SweepPlan& plan, const report::SweepResults& results) {
  if (results.done == plan.runs.size()) return;
  if (interrupts().any) {
    throw Interrupted(
        fmt::format("stopped with {} of {} runs done; the same command continues from there",
                    results.done, plan.runs.size()));
  }
  throw Error(fmt::format("{} of {} runs failed; the same command tries them again", results.failed,
                          plan.runs.size()));
}

void sweep_recipes(const SweepArguments& arguments) {
  const fs::path grid_file = arguments.grid;
  const fs::path out =
      arguments.out.empty() ? fs::path("runs") / grid_file.stem() : fs::path(arguments.out);
  const std::string program = arguments.program.empty() ? kOwnProgram : arguments.program;
  const report::SweepPlan plan = report::plan_sweep(report::load_grid(grid_file), out, program);
  report::require_sweep_folder(out);
  fs::create_directories(out);
  const FolderLock lock(out / report::kSweepLock, 0,
                        fmt::format("another process is using {}", out.string()));
  for (const std::string& notice : plan.notices) events::print_message(notice);
  const int jobs =
      arguments.jobs > 0 ? arguments.jobs : std::max(1, available_cores() / plan.threads_per_run);
  std::vector<report::SweepRun> runs;
  for (const report::PlannedRun& planned : plan.runs) runs.push_back(planned.run);
  catch_interrupts(SecondSignal::kCounts);
  const std::vector<report::RunOutcome> outcomes =
      report::run_sweep(runs, jobs, interrupts().count, events::terminal_display());
  const report::SweepResults results = report::collect_results(plan, outcomes);
  report::write_results(plan, outcomes, results, out);
  if (results.done > 0) {
    const report::Table& table = results.means ? *results.means : results.runs;
    fmt::print("{}\n{}", table.terminal(), results.legend);
  }
  if (!events::have_gnuplot()) {
    events::print_message("no curves.png: gnuplot (Debian package gnuplot-nox) is not installed");
  }
  fmt::print("{}\n", (out / "results.md").string());
  report_end(plan, results);
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto* command = add_command(
      app, "sweep", "Trains a recipe over a grid of values and seeds, and tabulates the results");
  const auto arguments = std::make_shared<SweepArguments>();
  command->add_option("grid", arguments->grid, "Grid file (TOML)")
      ->required()
      ->check(existing_file());
  add_count(*command, "--jobs", arguments->jobs, 1, 1024,
            "Number of runs at once (default: as many as the cores can carry)");
  command->add_option("--out", arguments->out,
                      "Folder for runs and results (default: runs/<name of the grid file>)");
  command->add_option("--program", arguments->program)->group("");
  command->footer(kGridHelp);
  add_quiet_flag(command);
  command->callback([arguments] { sweep_recipes(*arguments); });
}

}  // namespace thinwire::cli
