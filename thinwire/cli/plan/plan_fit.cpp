// thinwire plan fit: scaling laws fitted to the user's own runs.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/events/plot.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/fit.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr int kCurvePoints = 60;
constexpr double kMillion = 1e6;

struct PlanFitArguments {
  PlanRuns runs;
  std::string save;
  PlanOutput output;
};

struct Run {
  std::string folder;
  std::string method;
  plan::LossPoint point;
};

// A fitted law, and the runs with which it is compared.
struct Fit {
  plan::FittedLaw fitted;
  std::vector<Run> runs;
  std::vector<Run> held_out;
};

Run load_run(const std::string& folder, const std::string& set) {
  const PlanRun run = load_plan_run(folder, set);
  return {folder,
          run.recipe.sync.method,  // by its present name, which an old summary may lack
          {static_cast<double>(run.run.summary.params_non_embedding),
           static_cast<double>(run.run.summary.tokens),
           static_cast<double>(method::rounds_of(run.recipe).every), run.loss}};
}

std::map<std::string, std::vector<Run>> by_method(const std::vector<std::string>& folders,
                                                  const std::string& set) {
  std::map<std::string, std::vector<Run>> runs;
  for (const std::string& folder : folders) {
    Run run = load_run(folder, set);
    runs[run.method].push_back(std::move(run));
  }
  return runs;
}

std::vector<Fit> fit_runs(const PlanFitArguments& arguments) {
  auto held_out = by_method(arguments.runs.held_out, arguments.runs.set);
  std::vector<Fit> fits;
  for (auto& [method, runs] : by_method(arguments.runs.runs, arguments.runs.set)) {
    std::vector<plan::LossPoint> points;
    for (const Run& run : runs) points.push_back(run.point);
    fits.push_back({plan::fit_law(method, points), std::move(runs), {}});
    if (const auto kept = held_out.extract(method)) fits.back().held_out = kept.mapped();
  }
  if (!held_out.empty()) {
    throw UsageError(fmt::format("--hold-out {}: no run of {} is fitted",
                                 held_out.begin()->second.front().folder, held_out.begin()->first));
  }
  return fits;
}

nlohmann::ordered_json interval_json(const plan::Interval& interval) {
  return nlohmann::ordered_json::array({interval.low, interval.high});
}

plan::PredictedLoss predict(const plan::FittedLaw& fitted, const plan::LossPoint& point) {
  return plan::predict(fitted, point.parameters, point.tokens, point.local_steps);
}

nlohmann::ordered_json run_json(const plan::FittedLaw& fitted, const Run& run) {
  const auto predicted = predict(fitted, run.point);
  return {{"run", run.folder},
          {"parameters_non_embedding", run.point.parameters},
          {"tokens", run.point.tokens},
          {"local_steps", run.point.local_steps},
          {"loss", run.point.loss},
          {"predicted", predicted.loss},
          {"interval", interval_json(predicted.interval)}};
}

nlohmann::ordered_json as_json(const std::vector<Fit>& fits) {
  nlohmann::ordered_json json = {{"laws", nlohmann::ordered_json::array()}};
  for (const Fit& fit : fits) {
    const plan::FittedLaw& fitted = fit.fitted;
    nlohmann::ordered_json entry = {
        {"method", fitted.law.method},
        {"scale", fitted.law.law.scale},
        {"scale_interval", interval_json(fitted.scale)},
        {"exponent", fitted.law.law.exponent},
        {"exponent_interval", interval_json(fitted.exponent)},
        {"loss_per_local_step", fitted.law.loss_per_local_step},
        {"loss_per_local_step_interval", interval_json(fitted.loss_per_local_step)},
        {"floor", fitted.law.law.floor},
        {"floor_interval", interval_json(fitted.floor)},
        {"tokens_scale", fitted.law.law.tokens_scale},
        {"tokens_scale_interval", interval_json(fitted.tokens_scale)},
        {"tokens_exponent", fitted.law.law.tokens_exponent},
        {"tokens_exponent_interval", interval_json(fitted.tokens_exponent)},
        {"residual", fitted.residual},
        {"runs", nlohmann::ordered_json::array()},
        {"held_out", nlohmann::ordered_json::array()}};
    for (const Run& run : fit.runs) entry["runs"].push_back(run_json(fitted, run));
    for (const Run& run : fit.held_out) entry["held_out"].push_back(run_json(fitted, run));
    json["laws"].push_back(std::move(entry));
  }
  return json;
}

void append_row(report::Table& table, const plan::FittedLaw& fitted, const Run& run,
                const char* use) {
  const auto predicted = predict(fitted, run.point);
  table.rows.push_back(
      {run.folder, format_parameters(run.point.parameters), format_count(run.point.tokens),
       fmt::format("{}", run.point.local_steps), report::number_cell(run.point.loss, 4),
       report::number_cell(predicted.loss, 4),
       fmt::format("{:.4f} .. {:.4f}", predicted.interval.low, predicted.interval.high),
       fmt::format("{:+.2f} %", 100 * (predicted.loss / run.point.loss - 1)), use});
}

// "alpha_s s + (Nc / N)^alpha".
std::string formula_of(const plan::FittedLaw& fitted) {
  return fmt::format("{}{}(Nc / N)^alpha{}", fitted.has_tokens ? "E + " : "",
                     fitted.has_local_steps ? "alpha_s s + " : "",
                     fitted.has_tokens ? " + (Dc / D)^beta" : "");
}

void print_constant(const plan::FittedLaw& fitted, const char* name, double value,
                    const plan::Interval& interval, std::string_view format) {
  const bool known = fitted.student > 0;
  fmt::print("  {:<7}  {}  ({})\n", name, fmt::format(fmt::runtime(format), value),
             known ? fmt::format(fmt::runtime(format), interval.low) + " .. " +
                         fmt::format(fmt::runtime(format), interval.high)
                   : "no interval: as many runs as constants");
}

void print_constants(const plan::FittedLaw& fitted) {
  const plan::LossLaw& law = fitted.law.law;
  if (fitted.has_tokens) print_constant(fitted, "E", law.floor, fitted.floor, "{:.4f}");
  print_constant(fitted, "Nc", law.scale, fitted.scale, "{:.4g}");
  print_constant(fitted, "alpha", law.exponent, fitted.exponent, "{:.4f}");
  if (fitted.has_tokens) {
    print_constant(fitted, "Dc", law.tokens_scale, fitted.tokens_scale, "{:.4g}");
    print_constant(fitted, "beta", law.tokens_exponent, fitted.tokens_exponent, "{:.4f}");
  }
  if (fitted.has_local_steps) {
    print_constant(fitted, "alpha_s", fitted.law.loss_per_local_step, fitted.loss_per_local_step,
                   "{:.3g}");
  }
}

void print_text(const std::vector<Fit>& fits) {
  for (const Fit& fit : fits) {
    const plan::FittedLaw& fitted = fit.fitted;
    fmt::print(
        "{}: loss = {} of N parameters without embeddings{}{}; {} runs, off by {:.2f} %; with 95 % "
        "intervals\n",
        fitted.law.method, formula_of(fitted), fitted.has_tokens ? ", D tokens" : "",
        fitted.has_local_steps ? ", s local steps" : "", fitted.points, 100 * fitted.residual);
    print_constants(fitted);
    report::Table table{{{"run", true},
                         {"N"},
                         {"tokens"},
                         {"local\nsteps"},
                         {"loss"},
                         {"law"},
                         {"95 % of such\nruns within"},
                         {"law over\nloss"},
                         {"", true}},
                        {}};
    for (const Run& run : fit.runs) append_row(table, fitted, run, "");
    for (const Run& run : fit.held_out) append_row(table, fitted, run, "held out");
    fmt::print("\n{}\n", table.terminal());
  }
}

events::PlotSeries points_of(const std::vector<Run>& runs, std::string label) {
  events::PlotSeries series{std::move(label), {}, {}, true};
  for (const Run& run : runs) {
    series.x.push_back(run.point.parameters / kMillion);
    series.y.push_back(run.point.loss);
  }
  return series;
}

// The laws at the local steps of their runs, from the smallest model to the largest, and the runs.
void draw(const std::vector<Fit>& fits, const std::string& file) {
  events::PlotSpec spec;
  spec.title = "Loss of your runs and the laws fitted to them";
  spec.x_label = "million parameters without embeddings";
  spec.y_label = "nats per token";
  spec.log_x = true;
  for (const Fit& fit : fits) {
    // The range of sizes, by tokens and local steps.
    std::map<std::pair<double, double>, std::pair<double, double>> ranges;
    for (const auto* runs : {&fit.runs, &fit.held_out}) {
      for (const Run& run : *runs) {
        const double size = run.point.parameters;
        const std::pair key(run.point.tokens, run.point.local_steps);
        auto& range = ranges.try_emplace(key, size, size).first->second;
        range = {std::min(range.first, size), std::max(range.second, size)};
      }
    }
    const std::string& method = fit.fitted.law.method;
    for (const auto& [key, range] : ranges) {
      const auto [tokens, steps] = key;
      const std::string rounds = steps > 1 ? fmt::format(", {} local steps", steps) : "";
      const std::string length =
          fit.fitted.has_tokens ? fmt::format(", {} tokens", format_count(tokens)) : "";
      events::PlotSeries series{fmt::format("{}{}{}: law", method, rounds, length), {}, {}};
      for (int i = 0; i < kCurvePoints; ++i) {
        const double size =
            range.first * std::pow(range.second / range.first, i / (kCurvePoints - 1.0));
        series.x.push_back(size / kMillion);
        series.y.push_back(fit.fitted.law.loss(size, tokens, steps));
      }
      spec.series.push_back(std::move(series));
    }
    spec.series.push_back(points_of(fit.runs, method + ": runs"));
    if (!fit.held_out.empty()) {
      spec.series.push_back(points_of(fit.held_out, method + ": held out"));
    }
  }
  events::plot_lines(spec, file);
}

void run_plan_fit(const PlanFitArguments& arguments) {
  const auto fits = fit_runs(arguments);
  if (arguments.output.json) {
    fmt::print("{}\n", print_json(as_json(fits), {.indent = 2}));
  } else {
    print_text(fits);
  }
  if (!arguments.output.plot.empty()) draw(fits, arguments.output.plot);
  if (arguments.save.empty()) return;
  std::vector<plan::MethodLaw> laws;
  for (const Fit& fit : fits) laws.push_back(fit.fitted.law);
  plan::save_laws(arguments.save, laws);
  events::print_message(fmt::format("wrote the laws to {}", arguments.save));
}

}  // namespace

void add_plan_fit(CLI::App& plan) {
  auto* command =
      add_command(plan, "fit", "Fits scaling laws to finished runs, one law for each method");
  const auto arguments = std::make_shared<PlanFitArguments>();
  add_plan_runs(*command, arguments->runs);
  command
      ->add_option("--save", arguments->save,
                   "Write the laws to this new file, for --constants of other predictions")
      ->check(new_file());
  add_output(*command, arguments->output, "runs and laws");
  command->callback([arguments] { run_plan_fit(*arguments); });
}

}  // namespace thinwire::cli
