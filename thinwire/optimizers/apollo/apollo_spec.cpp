#include "thinwire/optimizers/apollo/apollo_spec.h"

#include "thinwire/config/recipe.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<ApolloOptions>(); }

void check(const config::Recipe& recipe) {
  check_shared_gradient(kApollo.name, recipe);
  check_ranks(kApollo.name, recipe.section<ApolloOptions>("apollo").low_rank, recipe);
}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  const LowRankShape shape =
      low_rank_shape(options.section<ApolloOptions>("apollo").low_rank, tensor);
  if (shape.rank == 0) return kAdamw.state(options, tensor);
  return {{"apollo.m", shape.core(), StateKind::kMean},
          {"apollo.v", shape.core(), StateKind::kSquares},
          {"apollo.projection", shape.one_basis(), StateKind::kBasis},
          {"apollo.norm", {1}}};
}

}  // namespace

void ApolloOptions::describe(config::Fields& fields) {
  low_rank.describe(fields);
  fields.choice("scaling", scaling,
                "Whether every channel along a matrix's larger dimension has a scale of its own, "
                "or the whole matrix has one.");
  fields.number_above("scale", scale, "", 0, 1e6,
                      "Multiplies the matrices' steps in addition to the learning rate; about "
                      "sqrt(smaller dimension / rank) where the whole matrix has one scale.");
  fields.number("growth", growth, "", 1, 1e6,
                "Factor by which the norm of a matrix's step may grow in a step.");
}

const OptimizerSpec kApollo = {
    .name = "apollo",
    .sentence =
        "Steps along the gradient, each channel scaled as Adam scales a random projection of it; "
        "adamw for the rest.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
    .vocabulary_by_rows = true,
    .steps_since = 5,
};

}  // namespace thinwire::method
