#include "thinwire/method/automatic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/config/automatic.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/optimizers/muon/muon_spec.h"

namespace thinwire::method {
namespace {

constexpr double kLongDecay = 0.998;

double number_in(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double three_digits(double value) { return number_in(fmt::format("{:.2e}", value)); }

// The beta of an average over about so many steps: 1 - 1 / steps, of which 1 / steps has two
// digits.
double decay(double steps) {
  return number_in(fmt::format("{:.6f}", 1 - number_in(fmt::format("{:.1e}", 1 / steps))));
}

// Whether it is a language model that learns text from random weights.
bool begins_with_text(const config::Recipe& recipe) {
  return recipe.train.init.empty() && !is_adapted(recipe.adapter) &&
         recipe.data.records == config::RecordKind::kText &&
         recipe.model.architecture == kLlama.name;
}

OptimizerRun run_of(const config::Recipe& recipe) {
  const config::TrainSection& train = recipe.train;
  const bool own = find_method(recipe.sync.method).local_updates && train.workers > 1;
  const double rows =
      static_cast<double>(train.batch) / static_cast<double>(own ? train.workers : 1);
  return {.tokens = rows * static_cast<double>(train.sequence),
          .steps = static_cast<double>(train.steps),
          .width = static_cast<double>(recipe.model.hidden),
          .is_independent = own};
}

// DisTrO's best rate over AdamW's; 0 where it is not known.
double distro_share(const DistroOptions& distro) {
  if (distro.stateless()) return 0;
  if (distro.update == DistroUpdate::kMuon) return 1.75;
  if (distro.update != DistroUpdate::kSign) return 0;
  const double chunks = 64.0 / static_cast<double>(distro.chunk);  // of the runs
  const double k = static_cast<double>(distro.k) * chunks * chunks;
  // Momentum over 1000 steps and over 100 was tried.
  if (distro.decay >= kLongDecay) return std::clamp(std::pow(32 / k, 0.25), 0.75, 1.8);
  return std::clamp(std::sqrt(k / 96), 0.5, 1.0);
}

// What a final decay of the rate leaves of the run.
double steps_before_decay(const config::Recipe& recipe) {
  const config::ScheduleSection& schedule = recipe.schedule;
  const bool decays = schedule.kind == config::ScheduleKind::kWsd;
  return static_cast<double>(recipe.train.steps - (decays ? schedule.decay : 0));
}

struct Chosen {
  std::string_view field;
  double number;
};

// What rules know for the recipe.
std::vector<Chosen> chosen(const config::Recipe& recipe) {
  if (!begins_with_text(recipe) || recipe.sync.within == config::Within::kDistro) return {};
  const OptimizerNumbers numbers = numbers_for(run_of(recipe));
  const Chosen warmup = {"schedule.warmup", std::min(numbers.warmup, steps_before_decay(recipe))};
  if (recipe.sync.method == kDistro.name) {
    const double share = distro_share(recipe.section<DistroOptions>("distro"));
    if (share == 0) return {};
    return {{"optim.lr", three_digits(share * numbers.lr)}, warmup};
  }
  const OptimizerSpec& optimizer = find_optimizer(recipe.optim.method);
  if (!optimizer.has_rules) return {};
  std::vector<Chosen> all = {
      {"optim.lr", numbers.lr}, {"adamw.beta1", numbers.beta1}, {"adamw.beta2", numbers.beta2}};
  if (&optimizer == &kMuon) all.push_back({"muon.momentum", numbers.momentum});
  all.push_back(warmup);
  return all;
}

}  // namespace

OptimizerNumbers numbers_for(const OptimizerRun& run) {
  const double rate = 0.16 * std::cbrt(run.tokens / 256) * std::sqrt(10'000 / run.steps);
  const double root = std::sqrt(run.steps);
  const bool own = run.is_independent;
  return {.lr = three_digits(std::min(rate, 0.62) / run.width),
          .beta1 = decay(std::clamp(root / (own ? 3 : 4), 10.0, 100.0)),
          .beta2 = decay(std::clamp(run.steps / (own ? 25 : 100), 20.0, 1000.0)),
          .momentum = decay(own ? std::clamp(root / 2, 20.0, 100.0) : 20),
          .warmup = std::min(std::floor(run.steps / (own ? 66 : 25)), 1000.0)};
}

void choose_numbers(config::Recipe& recipe) {
  for (const auto& [field, number] : chosen(recipe)) {
    if (config::is_open(recipe, field)) config::set_number(recipe, field, number);
  }
}

std::vector<std::string> automatic_numbers(const config::Recipe& recipe) {
  config::Recipe copy = recipe;
  std::vector<std::string> all;
  for (const auto& [field, rules] : chosen(recipe)) {
    if (!config::is_open(recipe, field)) continue;
    const double number = *config::number_of(copy, field);
    all.push_back(fmt::format("{} auto: {}{}", field, number,
                              number == rules ? "" : ", with which the run began"));
  }
  return all;
}

std::string_view rule_of(std::string_view field) {
  if (field == "optim.lr") {
    return "where text trains a llama from random weights by adamw, muon, or DisTrO with update = "
           "sign or muon, a rate in inverse proportion to model.hidden that falls with the number "
           "of steps and rises with the tokens of a step (docs/recipes.md); elsewhere 0.001.";
  }
  if (field == "schedule.warmup") {
    return "a twenty-fifth of the steps, or a 66th where workers train independently, at most "
           "1000, "
           "where optim.lr has a rule; elsewhere 0.";
  }
  if (field == "muon.momentum") {
    return "longer the more steps there are where workers train independently and text trains a "
           "llama from random weights (docs/recipes.md); elsewhere 0.95.";
  }
  return field == "adamw.beta1"
             ? "where text trains a llama from random weights by adamw or muon, an average the "
               "longer the more steps there are (docs/recipes.md); elsewhere 0.9."
             : "as beta1, for a longer average; elsewhere 0.95.";
}

}  // namespace thinwire::method
