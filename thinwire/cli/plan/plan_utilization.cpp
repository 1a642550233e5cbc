// thinwire plan utilization: the eager-updates paper's table 5, table 1 and figure 3 beside our
// simulation, or the same for any model.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/events/plot.h"
#include "thinwire/plan/eager_table.h"
#include "thinwire/plan/method_cost.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct PlanUtilizationArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  double parameters = 0;  // 0: the paper's models, or the recipe's
  int layers = 0;
  double step_seconds = 0;
  double flops = 0;
  PlanOutput output;
};

std::vector<plan::SyncSchedule> all_schedules() {
  auto schedules = plan::eager_schedules();
  schedules.push_back(plan::vanilla_diloco(100));
  return schedules;
}

bool is_papers(const PlanUtilizationArguments& arguments) {
  return arguments.recipe.empty() && arguments.parameters == 0 && arguments.layers == 0 &&
         arguments.step_seconds == 0 && arguments.flops == 0;
}

plan::SimulatedModel recipe_model(PlanUtilizationArguments arguments) {
  separate_recipe(arguments.recipe, arguments.overrides);
  config::Recipe recipe = load_run_recipe(arguments.recipe, arguments.overrides);
  const plan::PlannedModel model = plan::planned_model(recipe);
  const config::TrainSection& train = recipe.train;
  const auto tokens =
      static_cast<double>(train.batch * train.sequence) / static_cast<double>(train.workers);
  return {recipe.run.name, model.parameters, static_cast<int>(recipe.model.layers),
          arguments.flops > 0 ? tokens * model.flops_per_token / arguments.flops : 0};
}

// The model that recipe and flags describe; the flags win.
plan::SimulatedModel model_of(const PlanUtilizationArguments& arguments) {
  plan::SimulatedModel model{"model", 0, 0, 0};
  if (!arguments.recipe.empty()) model = recipe_model(arguments);
  if (arguments.parameters > 0) model.parameters = arguments.parameters;
  if (arguments.layers > 0) model.layers = arguments.layers;
  if (arguments.step_seconds > 0) model.step_seconds = arguments.step_seconds;
  if (model.step_seconds == 0) {
    throw UsageError(
        "--step-seconds, or a recipe and --flops, must be given: how long the computation of a "
        "step takes");
  }
  plan::check_model(model);
  return model;
}

nlohmann::ordered_json cell_json(const plan::EagerCell& cell) {
  return {{"model", cell.model.name},
          {"method", cell.schedule.name},
          {"utilization", cell.target},
          {"paper_gbit_s", cell.paper_gbit_s},
          {"predicted_gbit_s", cell.predicted_gbit_s},
          {"grid_gbit_s", cell.grid_gbit_s},
          {"min_gbit_s", cell.min_gbit_s},
          {"grid_distance", cell.grid_distance},
          {"impossible", cell.impossible}};
}

nlohmann::ordered_json hours_json(const plan::EagerHours& row) {
  return {{"method", row.method},
          {"tokens", row.tokens},
          {"paper_hours_fast", row.paper_hours_fast},
          {"hours_fast", row.hours_fast},
          {"paper_hours_1_gbit_s", row.paper_hours_slow},
          {"hours_1_gbit_s", row.hours_slow},
          {"paper_terabytes", row.paper_terabytes},
          {"terabytes", row.terabytes},
          {"terabytes_counted", row.terabytes_counted}};
}

std::string verdict(const plan::EagerCell& cell) {
  if (cell.impossible) return "impossible: payload / time exceeds it";
  return cell.agrees() ? "within one step"
                       : fmt::format("{:+} steps of the grid", cell.grid_distance);
}

void print_table5(const std::vector<plan::EagerCell>& cells) {
  report::Table table{{{"model", true},
                       {"method", true},
                       {"utilisation"},
                       {"paper\nGbit/s"},
                       {"ours\nGbit/s"},
                       {"payload /\ntime"},
                       {"", true}},
                      {}};
  for (const bool impossible : {true, false}) {
    for (const plan::EagerCell& cell : cells) {
      if (cell.impossible != impossible) continue;
      table.rows.push_back(
          {cell.model.name, cell.schedule.name, report::number_cell(cell.target, 2),
           report::number_cell(cell.paper_gbit_s, 1), report::number_cell(cell.predicted_gbit_s, 2),
           report::number_cell(cell.min_gbit_s, 2), verdict(cell)});
    }
  }
  fmt::print("{}\n", table.terminal());
}

void print_table1(const std::vector<plan::EagerHours>& rows) {
  report::Table table{{{"1 B model", true},
                       {"tokens"},
                       {"hours,\npaper"},
                       {"ours"},
                       {"hours at\n1 Gbit/s, paper"},
                       {"ours"},
                       {"TB, paper"},
                       {"ours"},
                       {"ours\nx 9"}},
                      {}};
  for (const plan::EagerHours& row : rows) {
    table.rows.push_back(
        {row.method, format_parameters(row.tokens), report::number_cell(row.paper_hours_fast, 2),
         report::number_cell(row.hours_fast, 2), report::number_cell(row.paper_hours_slow, 2),
         report::number_cell(row.hours_slow, 2), report::number_cell(row.paper_terabytes, 2),
         report::number_cell(row.terabytes, 3), report::number_cell(row.terabytes_counted, 2)});
  }
  fmt::print("{}\n", table.terminal());
}

void print_papers(bool json) {
  const auto cells = plan::eager_cells();
  const auto hours = plan::eager_hours();
  if (!json) {
    print_table5(cells);
    print_table1(hours);
    return;
  }
  nlohmann::ordered_json object;
  for (const plan::EagerCell& cell : cells) object["table5"].push_back(cell_json(cell));
  for (const plan::EagerHours& row : hours) object["table1"].push_back(hours_json(row));
  fmt::print("{}\n", print_json(object, {.indent = 2}));
}

void print_model(const plan::SimulatedModel& model, bool json) {
  report::Table table{{{"Gbit/s for a utilisation of", true}}, {}};
  for (const double target : plan::kEagerTargets) {
    table.columns.push_back({fmt::format("{:.2f}", target)});
  }
  nlohmann::ordered_json object = {{"parameters", model.parameters},
                                   {"layers", model.layers},
                                   {"step_seconds", model.step_seconds}};
  for (const plan::SyncSchedule& schedule : all_schedules()) {
    auto& row = table.rows.emplace_back(std::vector<std::string>{schedule.name});
    nlohmann::ordered_json entry = {{"method", schedule.name}};
    for (const double target : plan::kEagerTargets) {
      const double rate = plan::required_bandwidth(model, schedule, target);
      row.push_back(std::isinf(rate) ? "none" : fmt::format("{:.3g}", rate / 1e9));
      entry["required"].push_back({{"utilization", target}, {"bit_s", rate}});
    }
    object["methods"].push_back(std::move(entry));
  }
  if (json) {
    fmt::print("{}\n", print_json(object, {.indent = 2}));
  } else {
    fmt::print("{} parameters, {} layers, {:.3g} s of computation per step\n\n{}",
               format_parameters(model.parameters), model.layers, model.step_seconds,
               table.terminal());
  }
}

// Figure 3 for one model.
events::PlotSpec panel(const plan::SimulatedModel& model) {
  events::PlotSpec spec;
  spec.title = fmt::format("{} parameters, {:.3g} s a step", format_parameters(model.parameters),
                           model.step_seconds);
  spec.x_label = "bandwidth, Gbit/s";
  spec.y_label = "compute utilisation";
  spec.log_x = true;
  spec.legend = events::Legend::kBelow;
  for (const plan::SyncSchedule& schedule : all_schedules()) {
    events::PlotSeries series{schedule.name, {}, {}};
    for (const double rate : plan::eager_grid()) {
      series.x.push_back(rate);
      series.y.push_back(plan::utilization(model, schedule, rate * 1e9));
    }
    spec.series.push_back(std::move(series));
  }
  return spec;
}

void run_plan_utilization(const PlanUtilizationArguments& arguments) {
  std::vector<plan::SimulatedModel> models = plan::eager_models();
  if (is_papers(arguments)) {
    print_papers(arguments.output.json);
  } else {
    models = {model_of(arguments)};
    print_model(models.front(), arguments.output.json);
  }
  if (arguments.output.plot.empty()) return;
  std::vector<events::PlotSpec> panels;
  for (const plan::SimulatedModel& model : models) panels.push_back(panel(model));
  events::plot_panels(panels, arguments.output.plot);
}

}  // namespace

void add_plan_utilization(CLI::App& plan) {
  auto* command = add_command(plan, "utilization",
                              "Bandwidth needed for a compute utilisation: the eager-updates "
                              "paper's tables, or any model's");
  const auto arguments = std::make_shared<PlanUtilizationArguments>();
  command->add_option("recipe", arguments->recipe, "Recipe whose model to use, with --flops");
  add_overrides(*command, arguments->overrides);
  add_number(*command, "--parameters", arguments->parameters, kModelSize,
             "Parameters of the model");
  add_count(*command, "--layers", arguments->layers, 1, 1000, "Its layers");
  add_quantity(*command, "--step-seconds", arguments->step_seconds, {1e-9, 1e9}, "s",
               "Computation time of a step, forward and backward");
  add_quantity(*command, "--flops", arguments->flops, kRate, "FLOP/s",
               "Speed that a worker achieves in training, instead of --step-seconds");
  add_output(*command, arguments->output, "utilisation over bandwidth (the paper's figure 3)");
  command->callback([arguments] { run_plan_utilization(*arguments); });
}

}  // namespace thinwire::cli
