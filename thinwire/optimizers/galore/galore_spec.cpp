#include "thinwire/optimizers/galore/galore_spec.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<GaloreOptions>(); }

void check(const config::Recipe& recipe) {
  const auto& galore = recipe.section<GaloreOptions>("galore");
  check_ranks(kGalore.name, galore.low_rank, recipe);
  if (galore.low_rank.basis == Basis::kGradient) {
    return check_shared_gradient(kGalore.name, recipe);
  }
  if (galore.moments == Moments::kKeep) return;
  throw UsageError(
      fmt::format("[galore] moments = \"{}\" contradicts basis = \"{}\", whose vectors have no "
                  "relation to those before; choose moments = \"keep\" or basis = \"gradient\"",
                  name_of(galore.moments), name_of(galore.low_rank.basis)));
}

LowRankShape subspace(const OptimizerOptions& options, const TensorSpec& tensor) {
  return low_rank_shape(options.section<GaloreOptions>("galore").low_rank, tensor);
}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  const LowRankShape shape = subspace(options, tensor);
  if (shape.rank == 0) return kAdamw.state(options, tensor);
  return {{"galore.m", shape.core(), StateKind::kMean},
          {"galore.v", shape.core(), StateKind::kSquares},
          {"galore.basis", shape.one_basis(), StateKind::kBasis}};
}

}  // namespace

void GaloreOptions::describe(config::Fields& fields) {
  low_rank.describe(fields);
  fields.choice(
      "basis", low_rank.basis,
      "Whether a subspace follows the gradients, or is drawn from the run's seed, the same "
      "on all workers; DisTrO needs the latter.");
  describe_subspace_step(fields, scale, moments);
}

bool draws_bases(const config::Recipe& recipe) {
  return recipe.optim.method == kGalore.name &&
         recipe.section<GaloreOptions>("galore").low_rank.basis == Basis::kSeeded;
}

const OptimizerSpec kGalore = {
    .name = "galore",
    .sentence =
        "Adam in a low-rank subspace of each matrix's gradient, renewed from time to time; adamw "
        "for the rest.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
    .subspace = subspace,
    .vocabulary_by_rows = true,
};

}  // namespace thinwire::method
