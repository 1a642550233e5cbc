// thinwire plan coverage: how far runs with DisTrO, the user's or those that the planner's law
// rests on, end behind all-reduce, over their coverage.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/config/values.h"
#include "thinwire/events/plot.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/coverage_plan.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr int kCurvePoints = 60;
constexpr size_t kMinRuns = 3;
constexpr double kMaxLead = 100;  // nats

struct PlanCoverageArguments {
  PlanRuns runs;
  std::string update;  // of the planner's own runs, which take the place of folders; empty: folders
  std::optional<double> lead;
  PlanOutput output;
};

// A run with DisTrO.
struct Run {
  plan::ComparedRun compared;
  double lead = 0;  // plan::GapLine
  bool held_out = false;
  bool fitted = false;
};

struct CoverageFit {
  std::vector<Run> runs;
  plan::GapLine law;
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

std::vector<Run> load_runs(const PlanRuns& runs) {
  std::vector<plan::LossOfRun> losses;
  for (const auto* folders : {&runs.runs, &runs.held_out}) {
    for (const std::string& folder : *folders) losses.push_back(load_run(folder, runs.set));
  }
  std::vector<Run> all;
  for (plan::ComparedRun& compared : plan::compare_with_all_reduce(losses)) {
    all.push_back({std::move(compared)});
  }
  return all;
}

// The runs behind the law that `thinwire plan` uses for this update. Their losses are in the
// reports only.
std::vector<Run> own_runs(const std::string& update, const std::vector<std::string>& held_out) {
  using method::DistroUpdate;
  std::vector<Run> all;
  for (const plan::CoverageRun& run :
       plan::coverage_runs(update == "muon" ? DistroUpdate::kMuon : DistroUpdate::kSign)) {
    const plan::LossOfRun loss{run.name(), "", run.steps, run.coverage(), NAN};
    all.push_back({{loss, run.gap, {}, true}, run.lead});
  }
  for (const std::string& name : held_out) {
    if (std::ranges::none_of(all, [&](const Run& run) { return run.compared.run.name == name; })) {
      throw UsageError(fmt::format("--hold-out: no run is called '{}'", name));
    }
  }
  return all;
}

std::vector<Run> runs_of(const PlanCoverageArguments& arguments) {
  const PlanRuns& given = arguments.runs;
  if (!arguments.update.empty()) return own_runs(arguments.update, given.held_out);
  if (!given.runs.empty()) return load_runs(given);
  throw UsageError("give run folders, or --update for the planner's own runs");
}

CoverageFit fit_runs(const PlanCoverageArguments& arguments) {
  CoverageFit fit{runs_of(arguments), {}};
  std::vector<plan::CoveredGap> gaps;
  double least = HUGE_VAL;
  double most = 0;
  for (Run& run : fit.runs) {
    const double gap = run.compared.gap;
    run.lead = arguments.lead.value_or(run.lead);
    run.held_out = std::ranges::count(arguments.runs.held_out, run.compared.run.name) > 0;
    run.fitted = run.compared.best && !run.held_out && gap > -run.lead;
    if (!run.fitted) continue;
    const double coverage = run.compared.run.coverage;
    least = std::min(least, coverage);
    most = std::max(most, coverage);
    gaps.push_back({coverage, gap, run.lead});
  }
  if (gaps.size() < kMinRuns || least == most) {
    throw UsageError(fmt::format(
        "a law of coverage needs {} runs by distro that end behind all-reduce, or ahead by less "
        "than --lead, of at least two coverages, got {}",
        kMinRuns, gaps.size()));
  }
  fit.law = plan::fit_gaps(gaps);
  return fit;
}

nlohmann::ordered_json as_json(const CoverageFit& fit) {
  const plan::LineFit& line = fit.law.line;
  const plan::Interval slopes = line.slope_interval();
  nlohmann::ordered_json json = {{"scale", std::exp(line.intercept)},
                                 {"lead", fit.law.mean_lead},
                                 {"exponent", line.slope},
                                 {"exponent_interval", {slopes.low, slopes.high}},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const Run& run : fit.runs) {
    const plan::ComparedRun& compared = run.compared;
    const plan::ExpectedGap law = fit.law.at(compared.run.coverage, run.lead);
    json["runs"].push_back({{"run", compared.run.name},
                            {"steps", compared.run.steps},
                            {"coverage", compared.run.coverage},
                            {"loss", compared.run.loss},
                            {"gap", compared.gap},
                            {"lead", run.lead},
                            {"all_reduce_steps", compared.all_reduce_steps.value_or(NAN)},
                            {"predicted", law.nats},
                            {"interval", {law.range.low, law.range.high}},
                            {"fitted", run.fitted},
                            {"held_out", run.held_out}});
  }
  return json;
}

std::string use_of(const Run& run) {
  if (run.held_out) return "held out";
  if (!run.compared.best) return "another is better";
  if (run.fitted) return "";
  return run.lead > 0 ? "ahead by the lead or more" : "not behind";
}

void print_text(const CoverageFit& fit) {
  const plan::LineFit& line = fit.law.line;
  const plan::Interval slopes = line.slope_interval();
  const std::string lead =
      fit.law.leads.high > 0 ? fmt::format(" - lead ({:.3g} on average)", fit.law.mean_lead) : "";
  fmt::print("gap = {:.3g} coverage^{:.3g}{}, exponent {:.3g} to {:.3g} (95 %), from {} runs\n\n",
             std::exp(line.intercept), line.slope, lead, slopes.low, slopes.high, line.points);
  report::Table table{{{"run", true},
                       {"steps"},
                       {"coverage"},
                       {"loss"},
                       {"behind\nall-reduce"},
                       {"lead"},
                       {"its steps\nto the loss"},
                       {"law"},
                       {"95 % of\nsuch runs"},
                       {"", true}},
                      {}};
  for (const Run& run : fit.runs) {
    const plan::LossOfRun& distro = run.compared.run;
    const plan::ExpectedGap law = fit.law.at(distro.coverage, run.lead);
    table.rows.push_back(
        {distro.name, fmt::format("{}", distro.steps), fmt::format("{:.3g}", distro.coverage),
         report::number_cell(distro.loss, 3), report::number_cell(run.compared.gap, 3),
         report::number_cell(run.lead, 3),
         report::number_cell(run.compared.all_reduce_steps.value_or(NAN), 0),
         report::number_cell(law.nats, 3),
         fmt::format("{:.3f} to {:.3f}", law.range.low, law.range.high), use_of(run)});
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
    law.y.push_back(fit.law.at(law.x.back()).nats);
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
  CLI::Option* runs = add_plan_runs(*command, arguments->runs)->required(false);
  command
      ->add_option("--update", arguments->update,
                   "Take the planner's own runs with this distro.update instead of run folders")
      ->check(CLI::IsMember({"sign", "muon"}))
      ->excludes(runs);
  command
      ->add_option("--lead", arguments->lead,
                   "Nats by which DisTrO would end ahead if it sent everything: Muon's lead over "
                   "AdamW, for update = muon")
      ->check(CLI::Range(0.0, kMaxLead));
  add_output(*command, arguments->output, "gaps and law");
  command->callback([arguments] { run_plan_coverage(*arguments); });
}

}  // namespace thinwire::cli
