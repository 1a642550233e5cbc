#include "thinwire/plan/expected_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/scaling.h"

namespace thinwire::plan {
namespace {

// Parameters, and the loss of eager updates minus DiLoCo's.
constexpr std::array<std::pair<double, double>, 6> kEagerLoss = {
    {{35e6, 0.08}, {100e6, 0.06}, {200e6, 0.05}, {300e6, 0.05}, {500e6, 0.03}, {1e9, 0.01}}};
constexpr double kSecondLateStep = 0.04;
constexpr double kDelayedLoss = 0.34;
// The paper exchanges every 30 and every 100 steps. Of our runs below its smallest size, 0.2 M
// parameters, eager ones of two workers end 0.07 behind DiLoCo, of four 0.25, of eight 0.50, with
// 300 steps between exchanges 0.86, and delayed ones 0.75 (bench/results/2026-11-21-outer-loss.md).
constexpr int64_t kMaxLateSteps = 100;
constexpr int64_t kMaxSmallEagerWorkers = 2;

// Why updates that arrive late have a price that no run or paper knows; empty if it is known.
std::string unlike_late_runs(method::Overlap overlap, const config::Recipe& recipe,
                             int64_t sync_every, double parameters) {
  if (sync_every > kMaxLateSteps) {
    return fmt::format("the paper of {} updates has at most {} steps", name_of(overlap),
                       kMaxLateSteps);
  }
  const int64_t groups = recipe.sync.clustered() ? recipe.sync.clusters : recipe.train.workers;
  const bool few = overlap == method::Overlap::kEager && groups <= kMaxSmallEagerWorkers;
  const double smallest = kEagerLoss.front().first;
  if (few || parameters >= smallest) return {};
  return fmt::format(
      "{} updates of {} workers are far behind in runs below the {:.0f} M parameters of their "
      "paper",
      name_of(overlap), groups, smallest / 1e6);
}

constexpr std::array kLosses = {
#define THINWIRE_METHOD(Name) &k##Name##Loss,
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD
};

ExpectedLoss loss_of_method(const LossTerms& terms) {
  const config::Recipe& recipe = terms.candidate.recipe;
  if (terms.candidate.simulated) return local_sgd_loss(terms);
  if (recipe.sync.clustered() && recipe.sync.within == method::kDistro.name) {
    return unknown_loss("no run or paper has DisTrO inside clusters");
  }
  const std::string_view algorithm = method::find_method(terms.candidate.method).algorithm;
  const auto* const found = std::ranges::find(kLosses, algorithm, &AlgorithmLoss::algorithm);
  if (found == kLosses.end()) return unknown_loss("no run or paper has a law");
  return (*found)->loss(terms);
}

}  // namespace

ExpectedLoss unknown_loss(std::string why) { return {.basis = std::move(why)}; }

ExpectedLoss all_reduce_loss(const LossTerms& terms) {
  const bool fitted = find_law(terms.own, "allreduce") != nullptr;
  return {.nats = with_own({}, terms.own).all_reduce.loss(terms.model.non_embedding),
          .basis = fitted ? "own runs of all-reduce" : "all-reduce's law"};
}

ExpectedLoss local_sgd_loss(const LossTerms& terms) {
  if (terms.sync_every == 1) return all_reduce_loss(terms);
  const auto steps = static_cast<double>(terms.sync_every);
  if (steps >= kMaxLocalSteps) {
    return unknown_loss(fmt::format("local SGD's law ends at {} steps", kMaxLocalSteps));
  }
  return {.nats = local_loss(with_own({}, terms.own), terms.model.non_embedding, steps),
          .basis = "local SGD's law"};
}

ExpectedLoss expected_loss(const Candidate& candidate, int64_t sync_every, const LossModel& model,
                           std::span<const MethodLaw> own) {
  ExpectedLoss loss = loss_of_method({candidate, sync_every, model, own});
  const std::string& records = candidate.recipe.data.records;
  if (records == "labels" || records == "numbers" || records == "preferences") {
    loss.nats.reset();
    loss.gap.reset();
    loss.basis = fmt::format("no law for {}; those known are of text",
                             records == "labels" ? "classes" : records);
  } else if (!candidate.recipe.train.init.empty()) {
    loss.nats.reset();
    loss.gap.reset();
    loss.basis = "no law for training that goes on from a model (train.init)";
  }
  if (const MethodLaw* law = find_law(own, candidate.method)) {
    loss.nats = law->loss(model.non_embedding, static_cast<double>(sync_every));
    loss.basis = "own runs";
    loss.gap.reset();
  }
  method::Overlap overlap = method::Overlap::kNone;
  int64_t depth = 1;
  int64_t after = 0;
  if (const auto& simulated = candidate.simulated) {
    const bool late = simulated->overlap_steps >= sync_every && sync_every > 1;
    if (late) overlap = method::Overlap::kEager;
  } else if (const auto* options = dynamic_cast<const method::DilocoOptions*>(
                 &candidate.recipe.section(candidate.method))) {
    overlap = options->overlap;
    depth = options->depth;
    after = options->overlap_after;
  }
  const double late = late_loss(overlap, depth, model.parameters);
  if (!loss.nats || late == 0) return loss;
  std::string unlike = unlike_late_runs(overlap, candidate.recipe, sync_every, model.parameters);
  if (overlap == method::Overlap::kDelayed && after > 0) {
    unlike = fmt::format("no run has delayed updates with overlap_after = {}", after);
  }
  if (!unlike.empty()) return unknown_loss(std::move(unlike));
  *loss.nats += late;
  loss.basis += fmt::format(" + {}", name_of(overlap));
  return loss;
}

double late_loss(method::Overlap overlap, int64_t depth, double parameters) {
  if (overlap == method::Overlap::kDelayed) return kDelayedLoss;
  if (overlap != method::Overlap::kEager) return 0;
  const double second = depth > 1 ? kSecondLateStep : 0;
  const auto* const after = std::ranges::find_if(
      kEagerLoss, [&](const auto& entry) { return entry.first >= parameters; });
  if (after == kEagerLoss.begin()) return after->second + second;
  if (after == kEagerLoss.end()) return kEagerLoss.back().second + second;
  const auto& [size, loss] = *(after - 1);
  const double share = std::log(parameters / size) / std::log(after->first / size);
  return loss + share * (after->second - loss) + second;
}

}  // namespace thinwire::plan
