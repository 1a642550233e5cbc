// How a worker holds the gradients of a step. It follows from the recipe fields train.update,
// optim.gradients and optim.clip_by, and from those that decide into how many passes its rows are
// split (docs/memory.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

enum class GradientStore : uint8_t {
  kWhole,      // all of them, in an arena as large as the parameters'
  kStreamed,   // one after another, each handed to the optimizer as soon as it is complete
  kProjected,  // all of them, those of projected matrices as their projections
};

GradientStore gradient_store(const config::Recipe& recipe);

// Rows that a worker's model takes in a pass.
int64_t rows_per_pass(const config::TrainSection& train);

// Whether a worker's rows of a step may take several forward and backward passes.
bool takes_several_passes(const config::Recipe& recipe);

// The tensors with the shapes in which the optimizer takes their gradients.
std::vector<TensorSpec> gradient_tensors(const OptimizerOptions& options,
                                         std::span<const TensorSpec> tensors);

// Bytes of gradients that a worker holds where they are projected in the backward pass: those kept,
// and the whole ones from which bases are renewed.
double projected_gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

}  // namespace thinwire::method
