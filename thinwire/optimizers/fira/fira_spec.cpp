#include "thinwire/optimizers/fira/fira_spec.h"

#include "thinwire/config/recipe.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<FiraOptions>(); }

void check(const config::Recipe& recipe) {
  check_shared_gradient(kFira.name, recipe);
  check_ranks(kFira.name, recipe.section<FiraOptions>("fira").low_rank, recipe);
}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  const LowRankShape shape = low_rank_shape(options.section<FiraOptions>("fira").low_rank, tensor);
  if (shape.rank == 0) return kAdamw.state(options, tensor);
  return {{"fira.m", shape.core(), StateKind::kMean},
          {"fira.v", shape.core(), StateKind::kSquares},
          {"fira.basis", shape.one_basis(), StateKind::kBasis},
          {"fira.norm", {1}}};
}

}  // namespace

void FiraOptions::describe(config::Fields& fields) {
  low_rank.describe(fields);
  fields.number_above("scale", scale, "", 0, 1e6,
                      "Multiplies the part of a matrix's step that lies in the subspace; 1 as in "
                      "the paper.");
  describe_moments(fields, moments);
  fields.number("growth", growth, "", 1, 1e6,
                "Factor by which the norm of a matrix's step outside the subspace may grow in a "
                "step.");
}

const OptimizerSpec kFira = {
    .name = "fira",
    .sentence =
        "GaLore, and steps along the part of the gradient outside its subspace, scaled as Adam "
        "scales the part inside; adamw for the rest.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
    .vocabulary_by_rows = true,
    .steps_since = 5,
};

}  // namespace thinwire::method
