// What the recipe field train.offload requires from the rest of a recipe, and what a worker then
// holds: weights and the optimizer's state are in files (base/offload.h), and a window of them in
// memory.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

// Throws a UsageError if weights cannot be kept in files.
void check_offload(const config::Recipe& recipe);

// What a worker keeps in files, in bytes: `tensors` and their optimizer state, the frozen tensors
// beside an adapter, and outer_bytes().
double offloaded_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
// What workers that train apart agree on: shared weights, and the velocity of the outer step.
double outer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// Of that in memory, at most: the weights and state of the largest tensor, where it is cut into
// slabs (slabs.h) the state of one of them, and half as much to read ahead what is used after it.
double offload_window(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

}  // namespace thinwire::method
