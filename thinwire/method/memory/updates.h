// What the recipe fields train.update and optim.clip_by require from the rest of a recipe, and how
// much memory they need.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

// Throws a UsageError that names the alternatives if updates during the backward pass conflict with
// the method, the clipping or several passes over a step's rows, if the recipe clips other than by
// step and the method supports only clipping by step, or if gradients cannot be projected
// (gradient_store.h) or formed in slabs (slabs.h).
void check_updates(const config::Recipe& recipe);

// The largest number of workers that average their gradients with each other at every step.
int64_t members_of_a_step(const config::Recipe& recipe);

// Bytes of gradients that a worker holds. `pass` is the memory that its architecture reports for a
// pass.
double gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                      const PassMemory& pass);

// Bytes of state that clipping keeps from step to step.
double clipping_bytes(const config::Recipe& recipe);

}  // namespace thinwire::method
