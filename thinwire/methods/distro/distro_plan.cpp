#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "thinwire/config/recipe.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/methods/distro/coverage_plan.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"
#include "thinwire/plan/expected_loss.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::plan {
namespace {

constexpr double kMinDecay = 0.99;  // of DisTrO's runs
constexpr double kMaxDecay = 0.999;
// Its runs with update = muon have these.
constexpr double kMuonMomentum = 0.9;
constexpr double kMinMuonScale = 0.1;
constexpr double kMaxMuonScale = 0.2;

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
  if (options.sums.k > 0) return fmt::format("sum_k = {}", options.sums.k);
  if (options.overlap > 0 && !options.look_ahead) return "overlap = 1 without look_ahead";
  if (options.decay < kMinDecay || options.decay > kMaxDecay) {
    return fmt::format("decay = {}", options.decay);
  }
  return {};
}

ExpectedLoss distro_loss(const LossTerms& terms) {
  const config::Recipe& recipe = terms.candidate.recipe;
  const auto& options = recipe.section<method::DistroOptions>("distro");
  const schedule::Rounds rounds{recipe.train.steps, options.local_steps};
  const double covered = coverage(
      options, method::gradient_tensors(method::optimizer_options(recipe), terms.model.tensors),
      rounds.count());
  const CoverageLaw* const law = coverage_law(options.update);
  ExpectedLoss expected;
  expected.coverage = covered;
  expected.law = law;
  std::string unlike = unlike_runs(options);
  // The law of muon is of its lead over AdamW.
  if (unlike.empty() && recipe.optim.method != method::kAdamw.name &&
      options.update == method::DistroUpdate::kMuon) {
    unlike = fmt::format("update = muon and optim.method = {}", recipe.optim.method);
  }
  if (!unlike.empty()) {
    expected.basis = fmt::format("no law for DisTrO with {}", unlike);
    return expected;
  }
  const auto gap = law->gap(covered);
  if (!gap) {
    expected.basis =
        fmt::format("coverage {:.2g} is below the {:.2g} of DisTrO's runs with update = {}",
                    covered, law->least(), name_of(options.update));
    return expected;
  }
  expected = all_reduce_loss(terms);
  expected.coverage = covered;
  expected.gap = gap;
  expected.law = law;
  *expected.nats += gap->nats;
  expected.basis +=
      fmt::format(" {} {:.3f}, {:.3f} to {:.3f} in 95 % of runs, at coverage {:.3g}: {}",
                  gap->nats < 0 ? '-' : '+', std::abs(gap->nats), gap->range.low, gap->range.high,
                  std::min(covered, law->most()), law->runs());
  return expected;
}

}  // namespace

const AlgorithmLoss kDistroLoss = {"distro", distro_loss};

}  // namespace thinwire::plan
