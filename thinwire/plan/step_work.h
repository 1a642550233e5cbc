// The floating-point operations of a training step in which not only those that count as model
// FLOP/s are counted: recomputation, projected gradients and the products of optimizers, too.
#pragma once

#include <span>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"

namespace thinwire::plan {

// Of one member's step. model.vocab must be set.
double step_flops(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

}  // namespace thinwire::plan
