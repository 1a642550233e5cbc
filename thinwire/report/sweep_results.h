// A sweep's plan, and its results as tables and loss curves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thinwire/report/compare.h"
#include "thinwire/report/sweep_grid.h"
#include "thinwire/report/sweep_runner.h"

namespace thinwire::report {

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
