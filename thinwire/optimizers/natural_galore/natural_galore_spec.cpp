#include "thinwire/optimizers/natural_galore/natural_galore_spec.h"

#include "thinwire/config/recipe.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<NaturalGaloreOptions>(); }

void check(const config::Recipe& recipe) {
  check_shared_gradient(kNaturalGalore.name, recipe);
  check_ranks(kNaturalGalore.name, recipe.section<NaturalGaloreOptions>("natural_galore").low_rank,
              recipe);
}

LowRankShape subspace(const OptimizerOptions& options, const TensorSpec& tensor) {
  const auto& natural = options.section<NaturalGaloreOptions>("natural_galore");
  return low_rank_shape(natural.low_rank, tensor, natural.sides);
}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  const auto& natural = options.section<NaturalGaloreOptions>("natural_galore");
  const LowRankShape shape = subspace(options, tensor);
  if (shape.rank == 0) return kAdamw.state(options, tensor);
  const Shape core = shape.core();
  const int64_t history = natural.history;
  std::vector<StatePiece> pieces = {{"natural_galore.m", core, StateKind::kMean},
                                    {"natural_galore.v", core, StateKind::kSquares},
                                    {"natural_galore.history", {history, core[0], core[1]}},
                                    {"natural_galore.products", {2, history, history}}};
  const auto add = [&](std::string_view name, const Shape& basis) {
    pieces.push_back({name, basis, StateKind::kBasis});
  };
  if (shape.projects_rows()) add("natural_galore.left", shape.left_basis());
  if (shape.projects_columns()) add("natural_galore.right", shape.right_basis());
  return pieces;
}

}  // namespace

void NaturalGaloreOptions::describe(config::Fields& fields) {
  low_rank.describe(fields);
  describe_subspace_step(fields, scale, moments);
  fields.choice("sides", sides,
                "Whether the smaller dimension of a matrix is projected or both are, which makes "
                "the history small.");
  fields.integer("history", history, "gradients", 1, 1000,
                 "Projected gradients, the newest included, that make up the Fisher matrix.");
  fields.choice("at_refresh", at_refresh,
                "Whether the history is rotated into the new basis when a subspace is renewed, "
                "cleared, or kept as it is.");
  fields.number_above("damping", damping, "", 0, 1e30,
                      "Added to the diagonal of the Fisher matrix, so that it can be inverted.");
  fields.choice("damping_is", damping_is,
                "Whether damping is absolute, or relative to the mean square norm of the history's "
                "gradients.");
}

const OptimizerSpec kNaturalGalore = {
    .name = "natural_galore",
    .sentence =
        "GaLore with natural gradients, whose Fisher matrix is built from the last few projected "
        "gradients; adamw for the rest.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
    .subspace = subspace,
    .vocabulary_by_rows = true,
};

}  // namespace thinwire::method
