#include "thinwire/plan/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

constexpr double kBitsPerByte = 8;

// Exchange time over computation time with one exchange per step: 2 (m-1) n C_d / (3 B W).
double exchange_share(const LinkedClusters& setting) {
  return 2 * (setting.clusters - 1) * setting.devices * setting.flops * kBitsPerByte /
         (3 * setting.batch_tokens * setting.bandwidth_bit_s);
}

BudgetChoice spend_on(const LossLaws& laws, const LinkedClusters& setting, const Budget& budget,
                      double local_steps) {
  BudgetChoice choice;
  choice.clusters = static_cast<int>(setting.clusters);
  choice.local_steps = local_steps;
  choice.efficiency = efficiency(setting, local_steps);
  const double operations =
      choice.efficiency * setting.clusters * setting.devices * setting.flops * budget.seconds;
  choice.parameters = std::sqrt(operations / (6 * budget.tokens_per_parameter));
  choice.tokens = budget.tokens_per_parameter * choice.parameters;
  choice.loss = choice.clusters == 1
                    ? laws.all_reduce.loss(choice.parameters, choice.tokens)
                    : local_loss(laws, choice.parameters, choice.tokens, local_steps);
  return choice;
}

}  // namespace

void check_clusters(const LinkedClusters& setting) {
  if (!(setting.clusters >= 1)) {
    throw UsageError(fmt::format("clusters must be >= 1, got {}", setting.clusters));
  }
  for (const auto& [name, value] :
       {std::pair("devices", setting.devices), std::pair("flops", setting.flops),
        std::pair("bandwidth", setting.bandwidth_bit_s),
        std::pair("batch tokens", setting.batch_tokens)}) {
    if (!(value > 0)) throw UsageError(fmt::format("{} must be > 0, got {}", name, value));
  }
}

double step_seconds(const LinkedClusters& setting, double parameters) {
  return 6 * parameters * setting.batch_tokens / setting.clusters /
         (setting.devices * setting.flops);
}

double exchange_seconds(const LinkedClusters& setting, double parameters) {
  return 4 * parameters * (setting.clusters - 1) / setting.clusters * kBitsPerByte /
         setting.bandwidth_bit_s;
}

double efficiency(const LinkedClusters& setting, double local_steps) {
  return 1 / (1 + exchange_share(setting) / local_steps);
}

double local_steps_for(const LinkedClusters& setting, double target) {
  return exchange_share(setting) * target / (1 - target);
}

double LossLaw::loss(double parameters, double tokens) const {
  const double of_tokens = tokens_scale == 0 ? 0 : std::pow(tokens_scale / tokens, tokens_exponent);
  return floor + std::pow(scale / parameters, exponent) + of_tokens;
}

LossLaw chinchilla() {
  return {std::pow(482.01, 1 / 0.3478), 0.3478, 1.8172, std::pow(2085.43, 1 / 0.3658), 0.3658};
}

double local_loss(const LossLaws& laws, double parameters, double tokens, double local_steps) {
  return laws.loss_per_local_step * local_steps + laws.local_sgd.loss(parameters, tokens);
}

double loss_per_efficiency(const LossLaws& laws, const LinkedClusters& setting) {
  return laws.loss_per_local_step * exchange_share(setting);
}

double loss_at_efficiency(const LossLaws& laws, const LinkedClusters& setting, double parameters,
                          double tokens, double efficiency) {
  return loss_per_efficiency(laws, setting) * efficiency / (1 - efficiency) +
         laws.local_sgd.loss(parameters, tokens);
}

std::vector<BudgetChoice> spend(const LossLaws& laws, const LinkedClusters& most,
                                const Budget& budget) {
  check_clusters(most);
  if (!(budget.seconds > 0)) {
    throw UsageError(fmt::format("the budget must be > 0 seconds, got {}", budget.seconds));
  }
  if (!(budget.tokens_per_parameter > 0)) {
    throw UsageError(
        fmt::format("tokens a parameter must be > 0, got {}", budget.tokens_per_parameter));
  }
  std::vector<BudgetChoice> choices;
  for (int clusters = 1; clusters <= most.clusters; ++clusters) {
    LinkedClusters setting = most;
    setting.clusters = clusters;
    BudgetChoice best = spend_on(laws, setting, budget, 1);
    for (double steps = 2; clusters > 1 && steps < kMaxLocalSteps; steps *= 2) {
      const BudgetChoice choice = spend_on(laws, setting, budget, steps);
      if (choice.loss < best.loss) best = choice;
    }
    choices.push_back(best);
  }
  return choices;
}

const BudgetChoice& best_choice(std::span<const BudgetChoice> choices) {
  return *std::ranges::min_element(choices, {}, &BudgetChoice::loss);
}

std::vector<Scenario> paper_scenarios() {
  struct Case {
    int number;
    double devices;
    std::vector<double> flops;
    std::vector<double> clusters;
    std::vector<double> gigabits;
  };
  const std::vector<Case> cases = {
      {1, 8, {150e12, 300e12}, {2, 8}, {0.08, 0.8, 8}},
      {2, 1024, {150e12, 300e12}, {2, 8}, {0.8, 8, 40}},
      {3, 8, {150e12}, {1024}, {0.08, 0.8}},
  };
  std::vector<Scenario> scenarios;
  for (const Case& entry : cases) {
    for (const double flops : entry.flops) {
      for (const double clusters : entry.clusters) {
        for (const double gigabits : entry.gigabits) {
          scenarios.push_back(
              {entry.number, {clusters, entry.devices, flops, gigabits * 1e9, 4e6}});
        }
      }
    }
  }
  return scenarios;
}

}  // namespace thinwire::plan
