#include "thinwire/report/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "thinwire/base/units.h"

namespace thinwire::report {
namespace {

constexpr const char* kCurves = "curves.png";

std::string value_of(const Grid& grid, size_t point, const std::string& field) {
  for (const auto& [name, value] : grid.points[point]) {
    if (name == field) return value;
  }
  return "";
}

std::vector<Column> swept_columns(const Grid& grid) {
  std::vector<Column> columns;
  for (const std::string& field : grid.swept) columns.push_back({field, true});
  return columns;
}

std::vector<std::string> swept_cells(const Grid& grid, size_t point) {
  std::vector<std::string> cells;
  for (const std::string& field : grid.swept) {
    std::string value = value_of(grid, point, field);
    std::erase_if(value, [](char c) { return c == '\'' || c == '"'; });
    cells.push_back(std::move(value));
  }
  return cells;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::ranges::move(from, std::back_inserter(to));
}

// "3.214 ± 0.012" with the sample standard deviation; only the mean for a single value.
std::string spread_cell(const std::vector<double>& values, int decimals) {
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  if (values.size() < 2 || !std::isfinite(mean)) return number_cell(mean, decimals);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return fmt::format("{:.{}f} ± {:.{}f}", mean, decimals, deviation, decimals);
}

struct DoneRun {
  const PlannedRun* plan;
  FinishedRun result;
};

class Collector {
 public:
  Collector(const SweepPlan& plan, const std::vector<RunOutcome>& outcomes)
      : plan_(plan), outcomes_(outcomes) {
    for (size_t i = 0; i < plan.runs.size(); ++i) {
      if (outcomes[i].state != RunState::kDone) continue;
      finished_.push_back(load_finished_run(plan.runs[i].run.folder));
      done_.push_back({&plan.runs[i], finished_.back()});
    }
    measured_ = measured(finished_);
  }

  SweepResults collect() const {
    SweepResults results{
        runs_table(), exact_table(), means_table(), result_legend(finished_), done_.size(), 0, {}};
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      if (outcomes_[i].state != RunState::kFailed) continue;
      ++results.failed;
      results.failures.push_back(
          fmt::format("{}: {}", plan_.runs[i].run.label, outcomes_[i].reason));
    }
    return results;
  }

 private:
  bool seeded() const { return !plan_.grid.seeds.empty(); }

  Table runs_table() const {
    Table table{swept_columns(plan_.grid), {}};
    if (seeded()) table.columns.push_back({"seed"});
    append(table.columns, result_columns(finished_));
    for (const DoneRun& run : done_) {
      auto& row = table.rows.emplace_back(swept_cells(plan_.grid, run.plan->point));
      if (seeded()) row.push_back(run.plan->seed);
      append(row, result_cells(run.result.summary, measured_));
    }
    return table;
  }

  Table exact_table() const {
    Table table;
    for (const std::string& field : plan_.grid.swept) table.columns.push_back({field});
    append(table.columns, {{"seed"}, {"state"}, {"folder"}, {"method"}});
    append(table.columns, exact_columns(measured_));
    auto done = done_.begin();
    for (size_t i = 0; i < plan_.runs.size(); ++i) {
      const PlannedRun& run = plan_.runs[i];
      auto& row = table.rows.emplace_back(swept_cells(plan_.grid, run.point));
      append(row, {run.seed, state_text(outcomes_[i].state), run.run.folder.string()});
      if (outcomes_[i].state == RunState::kDone) {
        row.push_back(done->result.summary.method);
        append(row, exact_cells((done++)->result.summary, measured_));
      }
      row.resize(table.columns.size());
    }
    return table;
  }

  static std::string state_text(RunState state) {
    switch (state) {
      case RunState::kDone:
        return "done";
      case RunState::kFailed:
        return "failed";
      case RunState::kStopped:
        break;
    }
    return "stopped";
  }

  std::optional<Table> means_table() const {
    if (plan_.grid.seeds.size() < 2) return std::nullopt;
    Table table{swept_columns(plan_.grid), {}};
    append(table.columns, {{"runs"}, {"train\nloss"}});
    for (const std::string& set : measured_.sets) table.columns.push_back({set + "\nloss"});
    append(table.columns, {{"sent\na step"}, {"ring ÷\nsent"}, {"tokens\na second"}});
    for (size_t point = 0; point < plan_.grid.points.size(); ++point) {
      const auto runs = runs_of(point);
      if (runs.empty()) continue;
      auto& row = table.rows.emplace_back(swept_cells(plan_.grid, point));
      append(row, mean_cells(runs));
    }
    return table;
  }

  std::vector<const events::Summary*> runs_of(size_t point) const {
    std::vector<const events::Summary*> runs;
    for (const DoneRun& run : done_) {
      if (run.plan->point == point) runs.push_back(&run.result.summary);
    }
    return runs;
  }

  std::vector<std::string> mean_cells(const std::vector<const events::Summary*>& runs) const {
    const auto values = [&](auto&& value) {
      std::vector<double> all;
      for (const events::Summary* run : runs) all.push_back(value(*run));
      return all;
    };
    const auto mean = [&](auto&& value) {
      double sum = 0;
      for (const double each : values(value)) sum += each;
      return sum / static_cast<double>(runs.size());
    };
    using events::Summary;
    std::vector<std::string> cells = {fmt::format("{}", runs.size())};
    cells.push_back(spread_cell(values([](const Summary& run) { return run.train_loss; }), 3));
    for (const std::string& set : measured_.sets) {
      cells.push_back(spread_cell(values([&](const Summary& run) {
                                    const auto found = run.val_loss.find(set);
                                    return found == run.val_loss.end() ? std::nan("")
                                                                       : found->second;
                                  }),
                                  3));
    }
    cells.push_back(
        format_bytes(mean([](const Summary& run) { return run.bytes_sent_per_worker_step; })));
    cells.push_back(ratio_cell(mean([](const Summary& run) { return run.ratio_ring_sent; })));
    cells.push_back(format_count(mean([](const Summary& run) { return run.tokens_per_second; })));
    return cells;
  }

  const SweepPlan& plan_;
  const std::vector<RunOutcome>& outcomes_;
  std::vector<FinishedRun> finished_;
  std::vector<DoneRun> done_;
  Measured measured_;
};

// The pointwise mean of curves over the steps that all of them have.
events::PlotSeries mean_curve(const std::vector<events::PlotSeries>& curves) {
  events::PlotSeries mean = curves.front();
  for (const events::PlotSeries& curve : curves) {
    mean.x.resize(std::min(mean.x.size(), curve.x.size()));
  }
  mean.y.assign(mean.x.size(), 0);
  for (const events::PlotSeries& curve : curves) {
    for (size_t i = 0; i < mean.y.size(); ++i) {
      mean.y[i] += curve.y[i] / static_cast<double>(curves.size());
    }
  }
  return mean;
}

std::vector<events::PlotSeries> curves_of(const SweepPlan& plan,
                                          const std::vector<RunOutcome>& outcomes) {
  std::vector<events::PlotSeries> result;
  for (size_t point = 0; point < plan.grid.points.size(); ++point) {
    std::string label = point_label(plan.grid, point);
    if (label.empty()) label = plan.grid.recipe.stem().string();
    std::vector<events::PlotSeries> curves;
    for (size_t i = 0; i < plan.runs.size(); ++i) {
      if (plan.runs[i].point != point || outcomes[i].state != RunState::kDone) continue;
      curves.push_back(loss_curve(plan.runs[i].run.folder, label, CurveAxis::kSteps));
    }
    if (!curves.empty()) result.push_back(mean_curve(curves));
  }
  return result;
}

std::string markdown(const SweepPlan& plan, const SweepResults& results, bool curves) {
  std::string text = fmt::format("# Sweep of {}\n\n{} of {} runs done", plan.grid.recipe.string(),
                                 results.done, plan.runs.size());
  text += results.failed > 0 ? fmt::format(", {} failed.\n", results.failed) : ".\n";
  if (results.means) {
    text += "\n## Mean ± standard deviation over seeds\n\n" + results.means->markdown();
  }
  text += "\n## Runs\n\n" + results.runs.markdown() + "\n" + results.legend;
  if (curves) text += fmt::format("\n![Training loss]({})\n", kCurves);
  if (!results.failures.empty()) text += "\n## Failed\n\n";
  for (const std::string& failure : results.failures) text += "- " + failure + "\n";
  return text;
}

}  // namespace

SweepResults collect_results(const SweepPlan& plan, const std::vector<RunOutcome>& outcomes) {
  return Collector(plan, outcomes).collect();
}

void write_results(const SweepPlan& plan, const std::vector<RunOutcome>& outcomes,
                   const SweepResults& results, const fs::path& out) {
  const bool draw = results.done > 0 && events::have_gnuplot();
  if (draw)
    events::plot_lines(loss_plot(curves_of(plan, outcomes), CurveAxis::kSteps), out / kCurves);
  write_file(out / "results.csv", results.exact.csv());
  write_file(out / "results.md", markdown(plan, results, draw));
}

}  // namespace thinwire::report
