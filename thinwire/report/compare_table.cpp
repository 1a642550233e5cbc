#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "thinwire/base/units.h"
#include "thinwire/events/run_log.h"
#include "thinwire/report/compare.h"

namespace thinwire::report {
namespace {

constexpr const char* kOwnSet = "validation";
constexpr double kSmoothedShare = 0.02;

// NaN where there is none of this name.
double value_of(const std::map<std::string, double>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nan("") : found->second;
}

// "arc_easy\nacc" for "arc_easy.acc".
std::string score_title(std::string name) {
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos) name[dot] = '\n';
  return name;
}

// "100/10 Mbit/s"; "each recipe's links" if they differ between runs.
std::string links_text(std::span<const FinishedRun> runs) {
  if (runs.empty()) return "the links";
  const events::Summary& first = runs[0].summary;
  const bool same = std::ranges::all_of(runs, [&](const FinishedRun& run) {
    return run.summary.link_down_bit_s == first.link_down_bit_s &&
           run.summary.link_up_bit_s == first.link_up_bit_s;
  });
  if (!same) return "each recipe's links";
  return fmt::format("{:.4g}/{:.4g} Mbit/s", first.link_down_bit_s / 1e6,
                     first.link_up_bit_s / 1e6);
}

template <typename Label>
bool distinguishes(std::span<const FinishedRun> runs, Label&& label) {
  std::set<std::string> seen;
  for (const FinishedRun& run : runs) seen.insert(label(run));
  return seen.size() == runs.size();
}

std::string folder_name(const FinishedRun& run) {
  const fs::path folder = run.folder.lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// Over how many steps the runs' training losses are averaged.
std::string loss_legend(std::span<const FinishedRun> runs) {
  const auto same = [&](const FinishedRun& run) {
    return run.summary.train_loss_steps == runs[0].summary.train_loss_steps;
  };
  if (!runs.empty() && std::ranges::all_of(runs, same)) {
    return events::describe_train_loss(runs[0].summary);
  }
  return "mean of the last tenth of the steps, at most 50; in older runs a moving average";
}

// The columns that identify a run, and their cells.
struct Naming {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> cells;
};

Naming name_runs(std::span<const FinishedRun> runs) {
  Naming naming;
  const auto name = [](const FinishedRun& run) { return run.summary.name; };
  const auto method = [](const FinishedRun& run) {
    return method_text(run.summary.method, run.summary.within);
  };
  const bool by_method = distinguishes(runs, method);
  const bool by_name = distinguishes(runs, name);
  if (!by_method) naming.columns.push_back({"run", true});
  naming.columns.push_back({"method", true});
  for (const FinishedRun& run : runs) {
    auto& cells = naming.cells.emplace_back();
    if (!by_method) cells.push_back(by_name ? name(run) : folder_name(run));
    cells.push_back(method(run));
  }
  return naming;
}

template <typename Cells>
Table make_table(std::span<const FinishedRun> runs, std::vector<Column> columns, Cells&& cells) {
  Naming naming = name_runs(runs);
  Table table{std::move(naming.columns), std::move(naming.cells)};
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<std::string> more = cells(runs[i].summary);
    table.rows[i].insert(table.rows[i].end(), more.begin(), more.end());
  }
  return table;
}

}  // namespace

std::string method_text(const std::string& method, std::string_view within) {
  return within == "none" ? method : fmt::format("{} (within: {})", method, within);
}

std::vector<std::string> validation_sets(std::span<const FinishedRun> runs) {
  std::set<std::string> names;
  for (const FinishedRun& run : runs) {
    for (const auto& [name, loss] : run.summary.val_loss) names.insert(name);
  }
  std::vector<std::string> sets(names.begin(), names.end());
  std::ranges::stable_partition(sets, [](const std::string& name) { return name == kOwnSet; });
  return sets;
}

Measured measured(std::span<const FinishedRun> runs) {
  std::set<std::string> scores;
  for (const FinishedRun& run : runs) {
    for (const auto& [name, score] : run.summary.scores) scores.insert(name);
  }
  return {validation_sets(runs), {scores.begin(), scores.end()}};
}

std::vector<Column> result_columns(std::span<const FinishedRun> runs) {
  const Measured names = measured(runs);
  std::vector<Column> columns = {{"train\nloss"}};
  for (const std::string& set : names.sets) columns.push_back({set + "\nloss"});
  for (const std::string& score : names.scores) columns.push_back({score_title(score)});
  for (const char* title : {"sent\na step", "received\na step", "ring ÷\nsent", "ring ÷\nreceived",
                            "report's\nratio", "tokens\na second", "time\nhere"}) {
    columns.push_back({title});
  }
  columns.push_back({"time over\n" + links_text(runs)});
  return columns;
}

std::vector<std::string> result_cells(const events::Summary& summary, const Measured& measured) {
  std::vector<std::string> cells = {number_cell(summary.train_loss, 3)};
  for (const std::string& set : measured.sets) {
    cells.push_back(number_cell(value_of(summary.val_loss, set), 3));
  }
  for (const std::string& score : measured.scores) {
    cells.push_back(number_cell(value_of(summary.scores, score), 3));
  }
  cells.push_back(format_bytes(summary.bytes_sent_per_worker_step));
  cells.push_back(format_bytes(summary.bytes_received_per_worker_step));
  cells.push_back(ratio_cell(summary.ratio_ring_sent));
  cells.push_back(ratio_cell(summary.ratio_ring));
  cells.push_back(ratio_cell(summary.ratio_report));
  cells.push_back(format_count(summary.tokens_per_second));
  cells.push_back(format_seconds(summary.seconds));
  cells.push_back(format_seconds(summary.seconds_over_links));
  return cells;
}

std::string result_legend(std::span<const FinishedRun> runs) {
  return fmt::format(
      "train loss: {}.\n"
      "ring: what a worker sends in a bf16 ring all-reduce, over its own bytes sent (payload "
      "counted once) or received.\n"
      "report's ratio: 2 bytes a parameter over bytes sent. Time over {}: had each worker had such "
      "a link.\n",
      loss_legend(runs), links_text(runs));
}

std::vector<Column> exact_columns(const Measured& measured) {
  std::vector<Column> columns = {{"train_loss"}};
  for (const std::string& set : measured.sets) columns.push_back({"val_loss." + set});
  for (const std::string& score : measured.scores) columns.push_back({"scores." + score});
  for (const char* title :
       {"bytes_sent_per_worker_step", "bytes_received_per_worker_step", "ratio_ring",
        "ratio_ring_sent", "ratio_report", "tokens_per_second", "seconds", "seconds_over_links",
        "compute_utilization", "peak_memory_bytes", "train_loss_steps", "workers", "steps",
        "tokens", "params", "params_non_embedding", "within", "digest"}) {
    columns.push_back({title});
  }
  return columns;
}

std::vector<std::string> exact_cells(const events::Summary& summary, const Measured& measured) {
  std::vector<std::string> cells = {exact_cell(summary.train_loss)};
  for (const std::string& set : measured.sets) {
    cells.push_back(exact_cell(value_of(summary.val_loss, set)));
  }
  for (const std::string& score : measured.scores) {
    cells.push_back(exact_cell(value_of(summary.scores, score)));
  }
  for (const double value :
       {summary.bytes_sent_per_worker_step, summary.bytes_received_per_worker_step,
        summary.ratio_ring, summary.ratio_ring_sent, summary.ratio_report,
        summary.tokens_per_second, summary.seconds, summary.seconds_over_links,
        summary.compute_utilization}) {
    cells.push_back(exact_cell(value));
  }
  for (const int64_t value :
       {summary.peak_memory_bytes, summary.train_loss_steps, summary.workers, summary.steps,
        summary.tokens, summary.params, summary.params_non_embedding}) {
    cells.push_back(fmt::format("{}", value));
  }
  cells.push_back(summary.within);
  cells.push_back(summary.digest);
  return cells;
}

Table compare_table(std::span<const FinishedRun> runs) {
  const Measured names = measured(runs);
  return make_table(runs, result_columns(runs),
                    [&](const events::Summary& summary) { return result_cells(summary, names); });
}

Table exact_compare_table(std::span<const FinishedRun> runs) {
  const Measured names = measured(runs);
  Table table{{{"folder", true}, {"name", true}, {"method", true}}, {}};
  const auto columns = exact_columns(names);
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  for (const FinishedRun& run : runs) {
    auto& row = table.rows.emplace_back(
        std::vector<std::string>{run.folder.string(), run.summary.name, run.summary.method});
    const auto cells = exact_cells(run.summary, names);
    row.insert(row.end(), cells.begin(), cells.end());
  }
  return table;
}

events::PlotSeries loss_curve(const fs::path& folder, std::string label, CurveAxis axis) {
  events::PlotSeries series{std::move(label), {}, {}};
  double tokens = 0, bytes = 0;
  for (const events::StepEvent& event : events::read_run_log(folder / "events.jsonl").steps) {
    tokens += static_cast<double>(event.tokens);
    bytes += event.bytes_sent;
    const auto step = static_cast<double>(event.step);
    series.x.push_back(axis == CurveAxis::kSteps    ? step
                       : axis == CurveAxis::kTokens ? tokens
                                                    : bytes);
    series.y.push_back(event.loss);
  }
  const auto radius = static_cast<int>(kSmoothedShare / 2 * static_cast<double>(series.y.size()));
  series.y = events::smooth(series.y, radius);
  return series;
}

events::PlotSpec loss_plot(std::vector<events::PlotSeries> series, CurveAxis axis) {
  events::PlotSpec spec;
  spec.title = "Training loss";
  spec.x_label = axis == CurveAxis::kSteps    ? "step"
                 : axis == CurveAxis::kTokens ? "tokens of all workers"
                                              : "bytes that a worker has sent";
  spec.y_label = "loss (nats per token)";
  spec.log_x = axis == CurveAxis::kBytes;
  spec.prefixes_x = axis == CurveAxis::kBytes;
  spec.legend = events::Legend::kOutside;
  spec.width = 1500;
  spec.series = std::move(series);
  return spec;
}

}  // namespace thinwire::report
