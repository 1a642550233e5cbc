#include "thinwire/method/operations.h"

#include <cmath>

#include "thinwire/config/recipe.h"
#include "thinwire/method/adapters/relora.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::method {

namespace {

constexpr uint64_t kSpeedBytes = 4;  // fp32
constexpr uint64_t kLossBytes = 16;  // fp64 sum, count of tokens

// For a method without operations of its own: an all_gather after each of its rounds, waited for at
// once.
OperationsAfter gather_after_rounds(const Method& method, const config::Recipe& recipe,
                                    std::span<const TensorSpec> tensors) {
  const schedule::Rounds rounds{recipe.train.steps, method.sync_every(recipe)};
  const double mean = method.traffic(recipe, tensors, 2).sent_bytes;
  const double share = static_cast<double>(rounds.count()) / static_cast<double>(rounds.steps);
  const auto bytes = static_cast<uint64_t>(std::llround(mean / share));
  return [rounds, bytes](int64_t step) -> std::vector<Operation> {
    if (!rounds.closes(step)) return {};
    return {{.round = static_cast<uint64_t>(rounds.number(step)), .bytes = bytes, .due = step + 1}};
  };
}

OperationsAfter of_method(const Method& method, const config::Recipe& recipe,
                          std::span<const TensorSpec> tensors, RunKind kind) {
  return method.operations == nullptr ? gather_after_rounds(method, recipe, tensors)
                                      : method.operations(recipe, tensors, kind);
}

// Each member's speed in the round that ends with `completed` steps, where a later round can use
// it.
bool sends_speeds(const config::Recipe& recipe, int64_t every, int64_t completed) {
  return recipe.sync.shares == config::RowShares::kSpeed && completed % every == 0 &&
         completed + every < recipe.train.steps;
}

bool evaluates(const config::Recipe& recipe, int64_t completed) {
  const int64_t every = recipe.eval.every;
  return completed == recipe.train.steps || (every > 0 && completed % every == 0);
}

// What is exchanged beside the method's own: speeds and losses.
void add_measures(const config::Recipe& recipe, int64_t every, int64_t completed,
                  std::vector<Operation>& all) {
  const auto name = static_cast<uint64_t>(completed);
  if (sends_speeds(recipe, every, completed)) {
    all.push_back({.round = name,
                   .fragment = kSpeedsFragment,
                   .bytes = kSpeedBytes,
                   .due = completed + every});
  }
  if (recipe.eval.patience > 0 && evaluates(recipe, completed)) {
    all.push_back(
        {.round = name, .fragment = kLossesFragment, .bytes = kLossBytes, .due = completed});
  }
}

}  // namespace

OperationsAfter operations_of(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                              RunKind kind) {
  const Method& method = find_method(recipe.sync.method);
  const OperationsAfter own = of_method(method, recipe, tensors, kind);
  OperationsAfter within;  // of each cluster
  if (recipe.sync.clustered()) {
    within = of_method(find_method(name_of(recipe.sync.within)), recipe, tensors, kind);
  }
  return [&recipe, own, within, every = speeds_every(recipe)](int64_t step) {
    std::vector<Operation> all = own(step);
    if (within) {
      for (Operation inside : within(step)) {
        inside.group = Group::kCluster;
        all.push_back(inside);
      }
    }
    add_measures(recipe, every, step + 1, all);
    return all;
  };
}

StepRates step_rates(const config::Recipe& recipe, const schedule::Rounds& rounds, int64_t step) {
  const auto rate = [&](int64_t at) {
    return schedule::learning_rate(recipe.schedule, recipe.optim.lr, rounds.steps, at) *
           rewarm_factor(recipe, at);
  };
  double sum = 0;
  for (int64_t at = rounds.first_step(step); at <= step; ++at) sum += rate(at);
  return {static_cast<float>(rate(step)), static_cast<float>(sum)};
}

}  // namespace thinwire::method
