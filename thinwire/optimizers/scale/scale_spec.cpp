#include "thinwire/optimizers/scale/scale_spec.h"

#include "thinwire/optimizers/adamw/adamw_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<ScaleOptions>(); }

void check(const config::Recipe&) {}

std::vector<StatePiece> state(const OptimizerOptions& options, const TensorSpec& tensor) {
  if (!tensor.is_hidden_matrix() && !tensor.is_vocabulary_sized()) {
    return kAdamw.state(options, tensor);
  }
  if (!is_last_layer(options, tensor)) return {};
  return {{"scale.momentum", tensor.shape, StateKind::kMean}};
}

}  // namespace

bool is_last_layer(const OptimizerOptions& options, const TensorSpec& tensor) {
  return tensor.role == TensorRole::kHead ||
         (options.tied && tensor.role == TensorRole::kEmbedding);
}

void ScaleOptions::describe(config::Fields& fields) {
  fields.number("momentum", momentum, "", 0, 0.999'999'999,
                "Decay of the last layer's running mean of gradients, per step.");
}

const OptimizerSpec kScale = {
    .name = "scale",
    .sentence =
        "Steps along column-normalised gradients, with momentum for the last layer only; adamw for "
        "norms.",
    .options = options,
    .check = check,
    .state = state,
    .rest = &kAdamw,
};

}  // namespace thinwire::method
