#include "thinwire/plan/expected_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "thinwire/method/allreduce.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/optimizers/sections.h"
#include "thinwire/method/sparseloco.h"
#include "thinwire/plan/scaling.h"
#include "thinwire/schedule/schedule.h"

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

// SparseLoCo's paper (arXiv 2508.15706) finds it no worse than DiLoCo with 512 M parameters, 1 to 3
// % of the values and up to 250 steps between exchanges. A model of 0.2 M ended 0.36 behind
// (bench/results/2026-11-21-outer-loss.md); a quarter of the paper's size is where we stop.
constexpr double kMinSparseParameters = 128e6;
constexpr double kMinSparseShare = 0.01;
constexpr int64_t kMaxSparseSteps = 250;

// One bit with error feedback, beside fp32 with as many steps between exchanges: level after 10 000
// steps of a model of 0.2 M parameters, and so far behind after 41 000
// (bench/results/2026-11-28-one-bit-muon.md).
constexpr double kOneBitLoss = 0.04;
constexpr int64_t kMaxOneBitSteps = 64;

constexpr double kMinDecay = 0.99;  // of DisTrO's runs
constexpr double kMaxDecay = 0.999;
// Of its runs with update = muon.
constexpr double kMuonMomentum = 0.9;
constexpr double kMinMuonScale = 0.1;
constexpr double kMaxMuonScale = 0.2;

ExpectedLoss unknown(std::string why) { return {.basis = std::move(why)}; }

ExpectedLoss of_all_reduce(const LossModel& model, std::span<const MethodLaw> own) {
  const bool fitted = find_law(own, "allreduce") != nullptr;
  return {.nats = with_own({}, own).all_reduce.loss(model.non_embedding),
          .basis = fitted ? "own runs of all-reduce" : "all-reduce's law"};
}

ExpectedLoss of_local_sgd(int64_t sync_every, const LossModel& model,
                          std::span<const MethodLaw> own) {
  if (sync_every == 1) return of_all_reduce(model, own);
  const auto steps = static_cast<double>(sync_every);
  if (steps >= kMaxLocalSteps) {
    return unknown(fmt::format("local SGD's law ends at {} steps", kMaxLocalSteps));
  }
  return {.nats = local_loss(with_own({}, own), model.non_embedding, steps),
          .basis = "local SGD's law"};
}

std::string unlike_muon_runs(const method::DistroOptions& options) {
  if (options.overlap > 0) return "update = muon and overlap";
  if (options.muon_momentum != kMuonMomentum) {
    return fmt::format("muon_momentum = {}", options.muon_momentum);
  }
  if (options.muon_scale < kMinMuonScale || options.muon_scale > kMaxMuonScale) {
    return fmt::format("muon_scale = {}", options.muon_scale);
  }
  return {};
}

// Which of DisTrO's settings no run of the laws had; empty if all had them.
std::string unlike_runs(const method::DistroOptions& options) {
  if (options.stateless()) return "client = stateless";
  if (coverage_law(options.update) == nullptr) {
    return fmt::format("update = {}", name_of(options.update));
  }
  if (options.update == method::DistroUpdate::kMuon) {
    if (std::string unlike = unlike_muon_runs(options); !unlike.empty()) return unlike;
  }
  if (options.transform != method::DistroTransform::kDct) return "transform = none";
  if (options.feedback) return "feedback = true";
  if (options.overlap > 0 && !options.look_ahead) return "overlap = 1 without look_ahead";
  if (options.decay < kMinDecay || options.decay > kMaxDecay) {
    return fmt::format("decay = {}", options.decay);
  }
  return {};
}

ExpectedLoss of_distro(const config::Recipe& recipe, const LossModel& model,
                       std::span<const MethodLaw> own) {
  const auto& options = recipe.section<method::DistroOptions>("distro");
  const schedule::Rounds rounds{recipe.train.steps, options.local_steps};
  const double covered =
      coverage(options, method::gradient_tensors(method::optimizer_options(recipe), model.tensors),
               rounds.count());
  const CoverageLaw* const law = coverage_law(options.update);
  ExpectedLoss loss;
  loss.coverage = covered;
  loss.law = law;
  std::string unlike = unlike_runs(options);
  // The law of muon is of its lead over AdamW.
  if (unlike.empty() && recipe.optim.method != method::kAdamw.name &&
      options.update == method::DistroUpdate::kMuon) {
    unlike = fmt::format("update = muon and optim.method = {}", recipe.optim.method);
  }
  if (!unlike.empty()) {
    loss.basis = fmt::format("no law for DisTrO with {}", unlike);
    return loss;
  }
  const auto gap = law->gap(covered);
  if (!gap) {
    loss.basis =
        fmt::format("coverage {:.2g} is below the {:.2g} of DisTrO's runs with update = {}",
                    covered, law->least(), name_of(options.update));
    return loss;
  }
  loss = of_all_reduce(model, own);
  loss.coverage = covered;
  loss.gap = gap;
  loss.law = law;
  *loss.nats += gap->nats;
  loss.basis += fmt::format(" {} {:.3f}, {:.3f} to {:.3f} in 95 % of runs, at coverage {:.3g}: {}",
                            gap->nats < 0 ? '-' : '+', std::abs(gap->nats), gap->range.low,
                            gap->range.high, std::min(covered, law->most()), law->runs());
  return loss;
}

ExpectedLoss of_sparseloco(const config::Recipe& recipe, int64_t sync_every, const LossModel& model,
                           std::span<const MethodLaw> own) {
  const auto& options = recipe.section<method::SparseLocoOptions>("sparseloco");
  const double share = static_cast<double>(options.k) / static_cast<double>(options.chunk);
  if (model.parameters < kMinSparseParameters || share < kMinSparseShare ||
      sync_every > kMaxSparseSteps) {
    return unknown(
        fmt::format("SparseLoCo's paper has {:.0f} M parameters or more, {:.0f} % of the "
                    "values or more, at most {} steps",
                    kMinSparseParameters / 1e6, 100 * kMinSparseShare, kMaxSparseSteps));
  }
  ExpectedLoss loss = of_local_sgd(sync_every, model, own);
  loss.basis += ", as in SparseLoCo's paper";
  return loss;
}

// Of DiLoCo and its presets.
ExpectedLoss of_diloco(const method::DilocoOptions& options, int64_t sync_every,
                       const LossModel& model, std::span<const MethodLaw> own) {
  if (options.wire == WireType::kInt2 && !options.error_feedback) {
    return unknown("no run has two bits without error_feedback");
  }
  if (options.wire != WireType::kInt1) return of_local_sgd(sync_every, model, own);
  if (sync_every > kMaxOneBitSteps) {
    return unknown(
        fmt::format("no run in one bit has more than {} steps between exchanges", kMaxOneBitSteps));
  }
  ExpectedLoss loss = of_local_sgd(sync_every, model, own);
  *loss.nats += kOneBitLoss;
  loss.basis += fmt::format(" + {:.2f} in one bit", kOneBitLoss);
  return loss;
}

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

ExpectedLoss of_method(const Candidate& candidate, int64_t sync_every, const LossModel& model,
                       std::span<const MethodLaw> own) {
  const config::Recipe& recipe = candidate.recipe;
  if (candidate.simulated) return of_local_sgd(sync_every, model, own);
  if (candidate.method == "distro") return of_distro(recipe, model, own);
  if (recipe.sync.clustered() && recipe.sync.within == "distro") {
    return unknown("no run or paper has DisTrO inside clusters");
  }
  if (candidate.method == "sparseloco") return of_sparseloco(recipe, sync_every, model, own);
  const config::Section& section = recipe.section(candidate.method);
  if (const auto* options = dynamic_cast<const method::DilocoOptions*>(&section)) {
    return of_diloco(*options, sync_every, model, own);
  }
  const auto* options = dynamic_cast<const method::AllReduceOptions*>(&section);
  if (options == nullptr) return unknown("no run or paper has a law");
  if (options->wire != WireType::kF32 && options->wire != WireType::kBf16) {
    return unknown(fmt::format("no run or paper has gradients in {}", wire_name(options->wire)));
  }
  return of_all_reduce(model, own);
}

}  // namespace

ExpectedLoss expected_loss(const Candidate& candidate, int64_t sync_every, const LossModel& model,
                           std::span<const MethodLaw> own) {
  ExpectedLoss loss = of_method(candidate, sync_every, model, own);
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
  if (!unlike.empty()) return unknown(std::move(unlike));
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
