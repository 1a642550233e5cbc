#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "thinwire/config/recipe.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/plan/expected_loss.h"

namespace thinwire::plan {
namespace {

// One bit with error feedback, beside fp32 with as many steps between exchanges: level after 10 000
// steps of a model of 0.2 M parameters, and so far behind after 41 000
// (bench/results/2026-11-28-one-bit-muon.md).
constexpr double kOneBitLoss = 0.04;
constexpr int64_t kMaxOneBitSteps = 64;

ExpectedLoss diloco_loss(const LossTerms& terms) {
  if (terms.candidate.simulated) return local_sgd_loss(terms);
  const config::Recipe& recipe = terms.candidate.recipe;
  const auto& options = recipe.section<method::DilocoOptions>(terms.candidate.method);
  if (options.wire == WireType::kInt2 && !options.error_feedback) {
    return unknown_loss("no run has two bits without error_feedback");
  }
  if (options.wire != WireType::kInt1) return local_sgd_loss(terms);
  if (terms.sync_every > kMaxOneBitSteps) {
    return unknown_loss(
        fmt::format("no run in one bit has more than {} steps between exchanges", kMaxOneBitSteps));
  }
  ExpectedLoss expected = local_sgd_loss(terms);
  *expected.nats += kOneBitLoss;
  expected.basis += fmt::format(" + {:.2f} in one bit", kOneBitLoss);
  return expected;
}

// Parameters, and the loss of eager updates minus DiLoCo's.
constexpr std::array<std::pair<double, double>, 6> kEagerLoss = {
    {{35e6, 0.08}, {100e6, 0.06}, {200e6, 0.05}, {300e6, 0.05}, {500e6, 0.03}, {1e9, 0.01}}};
constexpr double kSecondLateStep = 0.04;
constexpr double kDelayedLoss = 0.34;
// The paper exchanges every 30 and every 100 steps. In our runs below its smallest size, 0.2 M
// parameters, eager ones with two workers end 0.07 behind DiLoCo, with four 0.25, with eight 0.50,
// with 300 steps between exchanges 0.86, and delayed ones 0.75
// (bench/results/2026-11-21-outer-loss.md).
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

// The loss in nats caused by pseudo-gradients that arrive one outer step late, or two (`depth`): 0
// except for kDelayed and kEager. kEager is from table 6 of the eager-updates paper (arXiv
// 2502.12996, H = 30), interpolated in the logarithm of the parameters; the others are from its
// table 2, at 500 M parameters.
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

struct Lateness {
  method::Overlap overlap = method::Overlap::kNone;
  int64_t depth = 1;
  int64_t after = 0;  // steps
};

Lateness lateness_of(const LossTerms& terms) {
  if (const auto& simulated = terms.candidate.simulated) {
    const bool late = simulated->overlap_steps >= terms.sync_every && terms.sync_every > 1;
    return {late ? method::Overlap::kEager : method::Overlap::kNone};
  }
  const auto& options =
      terms.candidate.recipe.section<method::DilocoOptions>(terms.candidate.method);
  return {options.overlap, options.depth, options.overlap_after};
}

void add_late_loss(const LossTerms& terms, ExpectedLoss& loss) {
  const auto [overlap, depth, after] = lateness_of(terms);
  const double late = late_loss(overlap, depth, terms.model.parameters);
  if (late == 0) return;
  std::string unlike =
      unlike_late_runs(overlap, terms.candidate.recipe, terms.sync_every, terms.model.parameters);
  if (overlap == method::Overlap::kDelayed && after > 0) {
    unlike = fmt::format("no run has delayed updates with overlap_after = {}", after);
  }
  if (!unlike.empty()) {
    loss = unknown_loss(std::move(unlike));
    return;
  }
  *loss.nats += late;
  loss.basis += fmt::format(" + {}", name_of(overlap));
}

}  // namespace

const AlgorithmLoss kDilocoLoss = {"diloco", diloco_loss, add_late_loss};

}  // namespace thinwire::plan
