#include "thinwire/method/optimizers/galore.h"

#include "thinwire/config/recipe.h"
#include "thinwire/method/optimizers/adamw.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<GaloreOptions>(); }

void check(const config::Recipe& recipe) {
  check_shared_gradient(kGalore.name, recipe);
  check_ranks(kGalore.name, recipe.section<GaloreOptions>("galore").low_rank, recipe);
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
  describe_subspace_step(fields, scale, moments);
}

const OptimizerSpec kGalore = {
    "galore",
    "Adam in a low-rank subspace of each matrix's gradient, renewed from time to time; adamw for "
    "the rest.",
    options,
    check,
    state,
    &kAdamw,
    subspace,
};

}  // namespace thinwire::method
