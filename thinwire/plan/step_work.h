// All floating-point operations of a training step, not only those that count towards model FLOP/s:
// recomputation, projected gradients and the products of optimizers are included.
#pragma once

#include <span>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"

namespace thinwire::plan {

// For one member's step. model.vocab must be set.
double step_flops(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

}  // namespace thinwire::plan
