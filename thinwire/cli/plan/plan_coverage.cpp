// thinwire plan coverage: how far the user's runs with DisTrO end behind all-reduce, over their
// coverage.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/cli/plan/plan_runs.h"
#include "thinwire/config/values.h"
#include "thinwire/events/plot.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/coverage.h"
#include "thinwire/plan/coverage_pairs.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr int kCurvePoints = 60;
constexpr size_t kMinRuns = 3;

struct PlanCoverageArguments {
  PlanRuns runs;
  PlanOutput output;
};

// A run with DisTrO.
struct Run {
  plan::ComparedRun compared;
  bool held_out = false;
  bool fitted() const { return compared.best && !held_out && compared.gap > 0; }
};

struct CoverageFit {
  std::vector<Run> runs;
  plan::LineFit line;  // log(gap) over log(coverage)

  double gap(double coverage) const { return std::exp(line.at(std::log(coverage))); }
  plan::Interval range(double coverage) const {
    const plan::Interval logs = line.next(std::log(coverage));
    return {std::exp(logs.low), std::exp(logs.high)};
  }
};

// What two runs must have in common to be compared.
std::string setup_of(config::Recipe recipe) {
  std::string setup =
      fmt::format("{} {} {}", recipe.run.seed, recipe.train.batch, recipe.train.sequence);
  for (const auto& [table, section] : recipe.sections()) {
    if (table != "data" && table != "model" && table != recipe.model.architecture) continue;
    config::Fields fields;
    section->describe(fields);
    for (const config::Field& field : fields.all()) setup += '\n' + config::plain_value(field);
  }
  return setup;
}

plan::LossOfRun load_run(const std::string& folder, const std::string& set) {
  const PlanRun run = load_plan_run(folder, set);
  const std::string& method = run.recipe.sync.method;
  if (method != "allreduce" && method != "distro") {
    throw UsageError(fmt::format(
        "{}: coverage compares runs by allreduce and distro, got one by {}", folder, method));
  }
  plan::LossOfRun loss{folder, setup_of(run.recipe), run.run.summary.steps, 0, run.loss};
  if (method == "distro") {
    loss.coverage = plan::coverage(run.recipe.section<method::DistroOptions>("distro"),
                                   method::gradient_tensors(method::optimizer_options(run.recipe),
                                                            method::tensors_of(run.recipe)),
                                   method::rounds_of(run.recipe).count());
  }
  return loss;
}

CoverageFit fit_runs(const PlanCoverageArguments& arguments) {
  std::vector<plan::LossOfRun> losses;
  for (const auto* folders : {&arguments.runs.runs, &arguments.runs.held_out}) {
    for (const std::string& folder : *folders) {
      losses.push_back(load_run(folder, arguments.runs.set));
    }
  }
  CoverageFit fit;
  std::vector<plan::Point> points;
  double least = HUGE_VAL;
  double most = 0;
  for (plan::ComparedRun& compared : plan::compare_with_all_reduce(losses)) {
    const bool held_out = std::ranges::count(arguments.runs.held_out, compared.run.name) > 0;
    const Run& run = fit.runs.emplace_back(Run{std::move(compared), held_out});
    if (!run.fitted()) continue;
    const double coverage = run.compared.run.coverage;
    least = std::min(least, coverage);
    most = std::max(most, coverage);
    points.push_back({std::log(coverage), std::log(run.compared.gap)});
  }
  if (points.size() < kMinRuns || least == most) {
    throw UsageError(fmt::format(
        "a law of coverage needs {} runs by distro that end behind all-reduce, of at least two "
        "coverages, got {}",
        kMinRuns, points.size()));
  }
  fit.line = plan::fit_line(points);
  return fit;
}

nlohmann::ordered_json as_json(const CoverageFit& fit) {
  const plan::Interval slopes = fit.line.slope_interval();
  nlohmann::ordered_json json = {{"scale", fit.gap(1)},
                                 {"exponent", fit.line.slope},
                                 {"exponent_interval", {slopes.low, slopes.high}},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const Run& run : fit.runs) {
    const plan::ComparedRun& compared = run.compared;
    const plan::Interval range = fit.range(compared.run.coverage);
    json["runs"].push_back({{"run", compared.run.name},
                            {"steps", compared.run.steps},
                            {"coverage", compared.run.coverage},
                            {"loss", compared.run.loss},
                            {"gap", compared.gap},
                            {"all_reduce_steps", compared.all_reduce_steps.value_or(NAN)},
                            {"predicted", fit.gap(compared.run.coverage)},
                            {"interval", {range.low, range.high}},
                            {"fitted", run.fitted()},
                            {"held_out", run.held_out}});
  }
  return json;
}

std::string use_of(const Run& run) {
  if (run.held_out) return "held out";
  if (!run.compared.best) return "another is better";
  return run.fitted() ? "" : "not behind";
}

void print_text(const CoverageFit& fit) {
  const plan::Interval slopes = fit.line.slope_interval();
  fmt::print("gap = {:.3g} coverage^{:.3g}, exponent {:.3g} to {:.3g} (95 %), from {} runs\n\n",
             fit.gap(1), fit.line.slope, slopes.low, slopes.high, fit.line.points);
  report::Table table{{{"run", true},
                       {"steps"},
                       {"coverage"},
                       {"loss"},
                       {"behind\nall-reduce"},
                       {"its steps\nto the loss"},
                       {"law"},
                       {"95 % of\nsuch runs"},
                       {"", true}},
                      {}};
  for (const Run& run : fit.runs) {
    const plan::LossOfRun& distro = run.compared.run;
    const plan::Interval range = fit.range(distro.coverage);
    table.rows.push_back(
        {distro.name, fmt::format("{}", distro.steps), fmt::format("{:.3g}", distro.coverage),
         report::number_cell(distro.loss, 3), report::number_cell(run.compared.gap, 3),
         report::number_cell(run.compared.all_reduce_steps.value_or(NAN), 0),
         report::number_cell(fit.gap(distro.coverage), 3),
         fmt::format("{:.3f} to {:.3f}", range.low, range.high), use_of(run)});
  }
  fmt::print("{}", table.terminal());
}

void draw(const CoverageFit& fit, const std::string& file) {
  events::PlotSpec spec;
  spec.title = "How far DisTrO ends behind all-reduce";
  spec.x_label = "coverage: times a worker can send each coefficient";
  spec.y_label = "nats per token";
  spec.log_x = true;
  events::PlotSeries runs{"runs", {}, {}, true};
  double least = HUGE_VAL;
  double most = 0;
  for (const Run& run : fit.runs) {
    const double coverage = run.compared.run.coverage;
    runs.x.push_back(coverage);
    runs.y.push_back(run.compared.gap);
    least = std::min(least, coverage);
    most = std::max(most, coverage);
  }
  events::PlotSeries law{"law", {}, {}};
  for (int i = 0; i < kCurvePoints; ++i) {
    law.x.push_back(least * std::pow(most / least, i / (kCurvePoints - 1.0)));
    law.y.push_back(fit.gap(law.x.back()));
  }
  spec.series = {std::move(law), std::move(runs)};
  events::plot_lines(spec, file);
}

void run_plan_coverage(const PlanCoverageArguments& arguments) {
  const CoverageFit fit = fit_runs(arguments);
  if (arguments.output.json) {
    fmt::print("{}\n", print_json(as_json(fit), {.indent = 2}));
  } else {
    print_text(fit);
  }
  if (!arguments.output.plot.empty()) draw(fit, arguments.output.plot);
}

}  // namespace

void add_plan_coverage(CLI::App& plan) {
  auto* command = add_command(
      plan, "coverage", "Compares runs by DisTrO with all-reduce, and fits a law to their gaps");
  const auto arguments = std::make_shared<PlanCoverageArguments>();
  add_plan_runs(*command, arguments->runs);
  add_output(*command, arguments->output, "gaps and law");
  command->callback([arguments] { run_plan_coverage(*arguments); });
}

}  // namespace thinwire::cli
