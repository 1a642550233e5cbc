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
std::vector<Operation> gather_after_rounds(const Method& method, const config::Recipe& recipe,
                                           std::span<const TensorSpec> tensors, int64_t step) {
  const schedule::Rounds rounds{recipe.train.steps, method.sync_every(recipe)};
  if (!rounds.closes(step)) return {};
  const double mean = method.traffic(recipe, tensors, 2).sent_bytes;
  const double share = static_cast<double>(rounds.count()) / static_cast<double>(rounds.steps);
  return {{.round = static_cast<uint64_t>(rounds.number(step)),
           .bytes = static_cast<uint64_t>(std::llround(mean / share)),
           .due = step + 1}};
}

std::vector<Operation> of_method(const Method& method, const config::Recipe& recipe,
                                 std::span<const TensorSpec> tensors, int64_t step, RunKind kind) {
  return method.operations == nullptr ? gather_after_rounds(method, recipe, tensors, step)
                                      : method.operations(recipe, tensors, step, kind);
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

}  // namespace

std::vector<Operation> operations_after(const config::Recipe& recipe,
                                        std::span<const TensorSpec> tensors, int64_t step,
                                        RunKind kind) {
  const Method& method = find_method(recipe.sync.method);
  std::vector<Operation> all = of_method(method, recipe, tensors, step, kind);
  if (recipe.sync.clustered()) {
    const Method& within = find_method(recipe.sync.within);
    for (Operation inside : of_method(within, recipe, tensors, step, kind)) {
      inside.group = Group::kCluster;
      all.push_back(inside);
    }
  }
  const int64_t completed = step + 1;
  const auto name = static_cast<uint64_t>(completed);
  const int64_t every = method.sync_every(recipe);
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
  return all;
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
