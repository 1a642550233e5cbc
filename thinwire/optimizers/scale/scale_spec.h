// Facts of SCALE (Glentis et al. 2025, arXiv 2506.16659): gradient descent with column-normalised
// gradients, and momentum on the last layer only.
#pragma once

#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// The table [scale].
struct ScaleOptions final : OptimizerSectionOf<ScaleOptions> {
  double momentum = 0.9;  // beta
  void describe(config::Fields& fields) override;
};

// Whether the tensor is the last layer: the head, or the embedding if it is tied.
bool is_last_layer(const OptimizerOptions& options, const TensorSpec& tensor);

extern const OptimizerSpec kScale;

}  // namespace thinwire::method
