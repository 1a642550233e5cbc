// A sweep's plan, its folder, and its results as tables and loss curves.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/events/progress.h"
#include "thinwire/report/compare.h"

namespace thinwire::report {

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

// Runs many `thinwire train` processes, several at once, and survives interruptions: finished runs
// are not repeated, and unfinished ones resume from their newest checkpoint.
struct SweepRun {
  std::string label;                 // shown in messages
  fs::path folder;                   // run.dir; its name identifies the recipe
  std::vector<std::string> command;  // program and arguments
  fs::path log() const { return folder.string() + ".log"; }
};

enum class RunState { kDone, kFailed, kStopped };

struct RunOutcome {
  RunState state = RunState::kStopped;
  std::string reason;  // why it failed
};

// Trains every run that has no summary.json yet, at most `jobs` at once. A failed run does not stop
// the others. When `interrupts` increases, no more runs are started, each increase is passed on to
// the running ones as a SIGINT, and it waits for them. The outcomes are in the order of the runs.
std::vector<RunOutcome> run_sweep(std::span<const SweepRun> runs, int jobs,
                                  const std::atomic<int>& interrupts,
                                  const events::Display& display);

struct PlannedRun {
  size_t point = 0;  // index into Grid::points
  std::string seed;  // empty: the recipe's own
  SweepRun run;
};

struct SweepPlan {
  Grid grid;
  std::vector<PlannedRun> runs;
  int threads_per_run = 1;           // most compute threads of any run, all its workers together
  std::vector<std::string> notices;  // of the runs' recipes, each once
};

// One process at a time runs a sweep: this file in its folder is locked meanwhile.
inline constexpr const char* kSweepLock = ".lock";

// Throws UsageError naming `out` and something in it, unless a sweep may write there: it does not
// exist yet, is empty, or holds a sweep's results or the log of a sweep's run.
void require_sweep_folder(const fs::path& out);

// Plans every run: resolves its recipe (UsageErrors name point and field), names its folder in
// `out` after the swept fields and a hash of the resolved recipe, so that a folder belongs to
// exactly one recipe, and makes the command that trains it with the executable `program`.
SweepPlan plan_sweep(Grid grid, const fs::path& out, const std::string& program);

// A point's values as a label, e.g. "lr=0.001 method=distro"; empty for a point without values.
std::string point_label(const Grid& grid, size_t point);

struct SweepResults {
  Table runs;                  // one row per finished run
  Table exact;                 // one row per run, in full precision
  std::optional<Table> means;  // mean ± standard deviation over seeds, if there are several
  std::string legend;
  size_t done = 0;
  size_t failed = 0;
  std::vector<std::string> failures;
};

// Reads the summaries of the finished runs.
SweepResults collect_results(const SweepPlan& plan, const std::vector<RunOutcome>& outcomes);

// Writes results.csv, results.md and, if gnuplot is installed, curves.png (one curve per point, the
// mean over its seeds) into `out`.
void write_results(const SweepPlan& plan, const std::vector<RunOutcome>& outcomes,
                   const SweepResults& results, const fs::path& out);

}  // namespace thinwire::report
