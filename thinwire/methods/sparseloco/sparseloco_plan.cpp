#include <fmt/format.h>

#include "thinwire/config/recipe.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"
#include "thinwire/plan/expected_loss.h"

namespace thinwire::plan {
namespace {

// SparseLoCo's paper (arXiv 2508.15706) finds it no worse than DiLoCo with 512 M parameters, 1 to 3
// % of the values and up to 250 steps between exchanges. A model of 0.2 M ended 0.36 behind
// (bench/results/2026-11-21-outer-loss.md); a quarter of the paper's size is where we stop.
constexpr double kMinSparseParameters = 128e6;
constexpr double kMinSparseShare = 0.01;
constexpr int64_t kMaxSparseSteps = 250;

ExpectedLoss sparseloco_loss(const LossTerms& terms) {
  const auto& options = terms.candidate.recipe.section<method::SparseLocoOptions>("sparseloco");
  const double share = static_cast<double>(options.k) / static_cast<double>(options.chunk);
  if (terms.model.parameters < kMinSparseParameters || share < kMinSparseShare ||
      terms.sync_every > kMaxSparseSteps) {
    return unknown_loss(
        fmt::format("SparseLoCo's paper has {:.0f} M parameters or more, {:.0f} % of the "
                    "values or more, at most {} steps",
                    kMinSparseParameters / 1e6, 100 * kMinSparseShare, kMaxSparseSteps));
  }
  if (options.sums.k > 0) {
    return unknown_loss(fmt::format("SparseLoCo's paper has no sum_k = {}", options.sums.k));
  }
  ExpectedLoss expected = local_sgd_loss(terms);
  expected.basis += ", as in SparseLoCo's paper";
  return expected;
}

}  // namespace

const AlgorithmLoss kSparseLocoLoss = {"sparseloco", sparseloco_loss};

}  // namespace thinwire::plan
