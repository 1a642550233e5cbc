// thinwire plan efficiency and plan loss: the scaling laws of local SGD.
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
#include "thinwire/plan/laws.h"
#include "thinwire/plan/scaling.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr double kLargestCurveStep = 1024;

struct EfficiencyArguments {
  plan::LinkedClusters setting;
  double local_steps = 32;
  int scenario = 0;  // 0: only the given setting
  PlanOutput output;
};

struct LossArguments {
  plan::LinkedClusters setting;
  std::string constants;
  plan::LossLaws laws;
  double parameters = 1e9;
  double tokens = 0;  // 0: by tokens_per_parameter
  double local_steps = 32;
  double hours = 0;  // 0: no budget
  double tokens_per_parameter = 20;
  PlanOutput output;
};

void add_clusters(CLI::App& app, plan::LinkedClusters& setting) {
  add_count(app, "--clusters,-m", setting.clusters, 1, 4096, "Clusters, m");
  add_count(app, "--devices,-n", setting.devices, 1, 1'000'000'000, "Devices in each cluster, n");
  add_quantity(app, "--flops", setting.flops, kRate, "FLOP/s",
               "Speed that a device achieves in training, C_d");
  add_quantity(app, "--bandwidth", setting.bandwidth_bit_s, kRate, "bit/s",
               "Bandwidth between clusters, 8 W");
  add_quantity(app, "--batch", setting.batch_tokens, {1, 1e18}, "tokens",
               "Batch of a step over all clusters, B");
}

void add_local_steps(CLI::App& app, double& local_steps) {
  add_quantity(app, "--local-steps,-s", local_steps, {1, kMaxSteps}, "steps",
               "Steps between exchanges, s");
}

std::vector<plan::Scenario> scenarios_of(const EfficiencyArguments& arguments) {
  if (arguments.scenario == 0) return {{0, arguments.setting}};
  std::vector<plan::Scenario> chosen;
  for (const plan::Scenario& scenario : plan::paper_scenarios()) {
    if (scenario.number == arguments.scenario) chosen.push_back(scenario);
  }
  return chosen;
}

std::string label_of(const plan::LinkedClusters& setting) {
  return fmt::format("m {}, n {}, {} TFLOP/s, {}", setting.clusters, setting.devices,
                     setting.flops / 1e12, format_rate(setting.bandwidth_bit_s));
}

std::vector<double> curve_steps() {
  std::vector<double> steps;
  for (double step = 1; step <= kLargestCurveStep; step *= 2) steps.push_back(step);
  return steps;
}

nlohmann::ordered_json clusters_json(const plan::LinkedClusters& setting) {
  return {{"clusters", setting.clusters},
          {"devices", setting.devices},
          {"flops", setting.flops},
          {"bandwidth_bit_s", setting.bandwidth_bit_s},
          {"batch_tokens", setting.batch_tokens}};
}

void print_efficiency(const std::vector<plan::Scenario>& scenarios, double local_steps) {
  report::Table table{{{"setting", true}}, {}};
  for (const double steps : {1.0, 8.0, 32.0, 64.0, 128.0, 512.0}) {
    table.columns.push_back({fmt::format("K at\ns {}", steps)});
  }
  table.columns.push_back({fmt::format("K at\ns {}", local_steps)});
  table.columns.push_back({"s for\nK 0.5"});
  table.columns.push_back({"s for\nK 0.9"});
  for (const auto& [number, setting] : scenarios) {
    auto& row = table.rows.emplace_back(std::vector<std::string>{label_of(setting)});
    for (const double steps : {1.0, 8.0, 32.0, 64.0, 128.0, 512.0, local_steps}) {
      row.push_back(fmt::format("{:.3f}", plan::efficiency(setting, steps)));
    }
    for (const double target : {0.5, 0.9}) {
      row.push_back(fmt::format("{:.1f}", plan::local_steps_for(setting, target)));
    }
  }
  fmt::print("{}", table.terminal());
}

nlohmann::ordered_json efficiency_json(const std::vector<plan::Scenario>& scenarios,
                                       double local_steps) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& [number, setting] : scenarios) {
    nlohmann::ordered_json json = clusters_json(setting);
    json["scenario"] = number;
    json["local_steps"] = local_steps;
    json["efficiency"] = plan::efficiency(setting, local_steps);
    for (const double steps : curve_steps()) {
      json["curve"].push_back(
          {{"local_steps", steps}, {"efficiency", plan::efficiency(setting, steps)}});
    }
    array.push_back(std::move(json));
  }
  return array;
}

void draw_efficiency(const std::vector<plan::Scenario>& scenarios, const std::string& file) {
  events::PlotSpec spec;
  spec.title = "Scaling efficiency K";
  spec.x_label = "local steps s";
  spec.y_label = "K";
  spec.log_x = true;
  spec.legend = events::Legend::kOutside;
  for (const auto& [number, setting] : scenarios) {
    events::PlotSeries series{label_of(setting), curve_steps(), {}};
    for (const double steps : series.x) series.y.push_back(plan::efficiency(setting, steps));
    spec.series.push_back(std::move(series));
  }
  events::plot_lines(spec, file);
}

void run_efficiency(const EfficiencyArguments& arguments) {
  const auto scenarios = scenarios_of(arguments);
  if (arguments.output.json) {
    fmt::print("{}\n",
               print_json(efficiency_json(scenarios, arguments.local_steps), {.indent = 2}));
  } else {
    print_efficiency(scenarios, arguments.local_steps);
  }
  if (!arguments.output.plot.empty()) draw_efficiency(scenarios, arguments.output.plot);
}

nlohmann::ordered_json choice_json(const plan::BudgetChoice& choice) {
  return {{"clusters", choice.clusters},     {"local_steps", choice.local_steps},
          {"parameters", choice.parameters}, {"tokens", choice.tokens},
          {"efficiency", choice.efficiency}, {"loss", choice.loss}};
}

std::vector<plan::BudgetChoice> choices_of(const LossArguments& arguments) {
  if (arguments.hours == 0) return {};
  return plan::spend(arguments.laws, arguments.setting,
                     {arguments.hours * 3600, arguments.tokens_per_parameter});
}

double tokens_of(const LossArguments& arguments) {
  return arguments.tokens > 0 ? arguments.tokens
                              : arguments.tokens_per_parameter * arguments.parameters;
}

double local_loss(const LossArguments& arguments) {
  return plan::local_loss(arguments.laws, arguments.parameters, tokens_of(arguments),
                          arguments.local_steps);
}

void print_loss(const LossArguments& arguments) {
  const double share = plan::efficiency(arguments.setting, arguments.local_steps);
  const double tokens = tokens_of(arguments);
  const plan::LossLaw& law = arguments.laws.all_reduce;
  fmt::print("{} parameters without embeddings, {} tokens{}:\n",
             format_parameters(arguments.parameters), format_parameters(tokens),
             law.tokens_scale == 0 ? ", of which L(N) knows nothing" : "");
  fmt::print("  all-reduce                    {:.4f} nats per token\n",
             law.loss(arguments.parameters, tokens));
  fmt::print("  local SGD, {:>4} local steps    {:.4f}, at K {:.3f} for {}\n",
             arguments.local_steps, local_loss(arguments), share, label_of(arguments.setting));
  fmt::print("  lambda                        {:.3g}\n",
             plan::loss_per_efficiency(arguments.laws, arguments.setting));
  fmt::print("  L(N, D) of Chinchilla         {:.4f}, on its own text, N with embeddings\n",
             plan::chinchilla().loss(arguments.parameters, tokens));
  if (arguments.local_steps >= plan::kMaxLocalSteps) {
    fmt::print("  L(s, N) was fitted for s < {}; {} local steps are beyond it.\n",
               plan::kMaxLocalSteps, arguments.local_steps);
  }
  const auto choices = choices_of(arguments);
  if (choices.empty()) return;
  report::Table table{{{"clusters"}, {"local\nsteps"}, {"parameters"}, {"tokens"}, {"K"}, {"loss"}},
                      {}};
  for (const plan::BudgetChoice& choice : choices) {
    table.rows.push_back({fmt::format("{}", choice.clusters), fmt::format("{}", choice.local_steps),
                          format_parameters(choice.parameters), format_parameters(choice.tokens),
                          fmt::format("{:.3f}", choice.efficiency),
                          fmt::format("{:.4f}", choice.loss)});
  }
  const plan::BudgetChoice& best = plan::best_choice(choices);
  fmt::print("\nIn {:g} h, {:g} tokens a parameter:\n{}\n", arguments.hours,
             arguments.tokens_per_parameter, table.terminal());
  fmt::print("Best: {} clusters, {} parameters, {} local steps, loss {:.4f}.\n", best.clusters,
             format_parameters(best.parameters), best.local_steps, best.loss);
}

void print_loss_json(const LossArguments& arguments) {
  const plan::LossLaws& laws = arguments.laws;
  nlohmann::ordered_json json = clusters_json(arguments.setting);
  json["parameters"] = arguments.parameters;
  json["local_steps"] = arguments.local_steps;
  json["tokens"] = tokens_of(arguments);
  json["loss_all_reduce"] = laws.all_reduce.loss(arguments.parameters, tokens_of(arguments));
  json["loss_local_sgd"] = local_loss(arguments);
  json["loss_chinchilla"] = plan::chinchilla().loss(arguments.parameters, tokens_of(arguments));
  json["efficiency"] = plan::efficiency(arguments.setting, arguments.local_steps);
  json["lambda"] = plan::loss_per_efficiency(laws, arguments.setting);
  const auto choices = choices_of(arguments);
  for (const plan::BudgetChoice& choice : choices) json["choices"].push_back(choice_json(choice));
  if (!choices.empty()) json["best"] = choice_json(plan::best_choice(choices));
  fmt::print("{}\n", print_json(json, {.indent = 2}));
}

void draw_loss(const LossArguments& arguments) {
  events::PlotSpec spec;
  spec.title = "Loss by the scaling laws";
  spec.x_label = "parameters without embeddings";
  spec.y_label = "nats per token";
  spec.log_x = true;
  spec.series = {{"all-reduce", {}, {}},
                 {fmt::format("local SGD, {} local steps", arguments.local_steps), {}, {}}};
  LossArguments at = arguments;
  for (at.parameters = 1e6; at.parameters < 1.1e12; at.parameters *= std::pow(10, 0.125)) {
    for (events::PlotSeries& series : spec.series) series.x.push_back(at.parameters);
    spec.series[0].y.push_back(at.laws.all_reduce.loss(at.parameters, tokens_of(at)));
    spec.series[1].y.push_back(local_loss(at));
  }
  events::plot_lines(spec, arguments.output.plot);
}

void run_loss(LossArguments arguments) {
  if (arguments.tokens > 0 && arguments.hours > 0) {
    throw UsageError(
        "--tokens and --hours exclude each other: a budget of hours is spent on models of several "
        "sizes, whose tokens --tokens-per-parameter gives");
  }
  if (!arguments.constants.empty()) {
    arguments.laws = plan::with_own(arguments.laws, plan::load_laws(arguments.constants));
  }
  if (arguments.output.json) {
    print_loss_json(arguments);
  } else {
    print_loss(arguments);
  }
  if (!arguments.output.plot.empty()) draw_loss(arguments);
}

}  // namespace

void add_plan_efficiency(CLI::App& plan) {
  auto* command =
      add_command(plan, "efficiency",
                  "Scaling efficiency K of local SGD between clusters, over the local steps");
  const auto arguments = std::make_shared<EfficiencyArguments>();
  add_clusters(*command, arguments->setting);
  add_local_steps(*command, arguments->local_steps);
  add_count(*command, "--scenario", arguments->scenario, 1, 3,
            "Use one of the paper's scenarios instead: 1, 2, 3");
  add_output(*command, arguments->output, "K over the local steps");
  command->callback([arguments] { run_efficiency(*arguments); });
}

void add_plan_loss(CLI::App& plan) {
  auto* command = add_command(
      plan, "loss",
      "Loss predicted by the scaling laws, and the best model and clusters for a budget");
  const auto arguments = std::make_shared<LossArguments>();
  add_clusters(*command, arguments->setting);
  add_number(*command, "--parameters", arguments->parameters, kModelSize,
             "Parameters without embeddings, N");
  add_quantity(*command, "--tokens", arguments->tokens, {1, 1e18}, "tokens",
               "Tokens of the whole run, D, instead of those by --tokens-per-parameter");
  add_local_steps(*command, arguments->local_steps);
  add_quantity(*command, "--hours", arguments->hours, {1e-6, 1e9}, "h",
               "Budget: time on up to m clusters");
  add_quantity(*command, "--tokens-per-parameter", arguments->tokens_per_parameter, {1e-3, 1e9},
               "tokens", "Training tokens per parameter");
  command
      ->add_option("--constants", arguments->constants,
                   "Laws that thinwire plan fit --save wrote, instead of the paper's")
      ->check(existing_file());
  add_output(*command, arguments->output, "both laws");
  command->callback([arguments] { run_loss(*arguments); });
}

}  // namespace thinwire::cli
