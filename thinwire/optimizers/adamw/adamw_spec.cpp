#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<AdamwOptions>(); }

void check(const config::Recipe&) {}

std::vector<StatePiece> state(const OptimizerOptions&, const TensorSpec& tensor) {
  return {{"adamw.m", tensor.shape, StateKind::kMean},
          {"adamw.v", tensor.shape, StateKind::kSquares}};
}

}  // namespace

void AdamwOptions::describe(config::Fields& fields) {
  fields.number("beta1", beta1, "", 0, 0.999'999'999,
                "Decay of the running mean of the gradients, per step.");
  fields.number("beta2", beta2, "", 0, 0.999'999'999,
                "Decay of the running mean of the squared gradients, per step.");
  fields.number_above("eps", eps, "", 0, 1,
                      "Added to the root mean square, so that the update never divides by zero.");
}

const OptimizerSpec kAdamw = {
    .name = "adamw",
    .sentence =
        "Adam with decoupled weight decay: steps along the mean of the gradients divided by their "
        "root mean square.",
    .options = options,
    .check = check,
    .state = state,
    .vocabulary_by_rows = true,
    .has_rules = true,
    .can_reset = true,
};

}  // namespace thinwire::method
