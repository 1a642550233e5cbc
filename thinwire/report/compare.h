// Finished runs side by side: what `thinwire compare` and the sweep's results show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/events/plot.h"
#include "thinwire/events/summary.h"
#include "thinwire/report/table.h"

namespace thinwire::report {

struct FinishedRun {
  fs::path folder;
  events::Summary summary;
};

// Reads a run folder's summary.json. Throws Error if the folder is not a finished run.
FinishedRun load_finished_run(const fs::path& folder);

struct FoundRuns {
  std::vector<FinishedRun> finished;
  std::vector<std::string> left_out;  // "runs/b: at step 120 of 500, not finished"
};

// Sorts paths, such as those of runs/*, into finished runs and everything else. Throws Error for a
// path that does not exist.
FoundRuns find_runs(std::span<const std::string> paths);

// "diloco"; for a run in two stages "diloco (within: allreduce)".
std::string method_text(const std::string& method, std::string_view within);

// Names of all validation sets of the runs; "validation", the training text's own, comes first.
std::vector<std::string> validation_sets(std::span<const FinishedRun> runs);

// What some of the runs have measured.
struct Measured {
  std::vector<std::string> sets;    // validation sets, as above
  std::vector<std::string> scores;  // of tasks, "task.metric"
};
Measured measured(std::span<const FinishedRun> runs);

// The contents of a summary, as columns and, for one run, cells: losses, scores, bytes, ratios,
// speed, time.
std::vector<Column> result_columns(std::span<const FinishedRun> runs);
std::vector<std::string> result_cells(const events::Summary& summary, const Measured& measured);
// Lines that say what the losses, ratios and times of result_columns mean.
std::string result_legend(std::span<const FinishedRun> runs);

// The same for machines, in full precision under the names of summary.json.
std::vector<Column> exact_columns(const Measured& measured);
std::vector<std::string> exact_cells(const events::Summary& summary, const Measured& measured);

// One row per run. Runs are labelled by method if that distinguishes them, else by name or folder.
Table compare_table(std::span<const FinishedRun> runs);
Table exact_compare_table(std::span<const FinishedRun> runs);

// The horizontal axis of a loss curve; tokens and bytes are counted since the run began.
enum class CurveAxis : uint8_t {
  kSteps,
  kTokens,  // of all workers
  kBytes,   // sent by a worker, mean over the workers; on a logarithmic scale
};
inline constexpr std::string_view kCurveAxisNames[] = {"steps", "tokens", "bytes"};
constexpr std::span<const std::string_view> names_of(CurveAxis) { return kCurveAxisNames; }

// The training loss of a run, from events.jsonl, smoothed over about 2 % of its steps.
events::PlotSeries loss_curve(const fs::path& folder, std::string label, CurveAxis axis);
events::PlotSpec loss_plot(std::vector<events::PlotSeries> series, CurveAxis axis);

}  // namespace thinwire::report
