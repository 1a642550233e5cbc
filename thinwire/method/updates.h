// What recipe fields train.update and optim.clip_by ask of the rest of a recipe, and what they
// cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architecture.h"

namespace thinwire::method {

// Throws UsageError that names the ways out where updates during the backward pass contradict the
// method, clipping or passes over parts of a step's rows, and where the method knows no other
// clipping than by step.
void check_updates(const config::Recipe& recipe);

// The largest number of workers whose gradients are averaged at every step.
int64_t members_of_a_step(const config::Recipe& recipe);

// Elements of each sum that an average of gradients takes: of the arena, or of each group of
// tensors (base/gradient_groups.h).
std::vector<int64_t> gradient_sums(const config::Recipe& recipe,
                                   std::span<const TensorSpec> tensors);

// Bytes of gradients that a worker holds, `pass` being what its architecture says of its passes.
double gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                      const PassMemory& pass);

// Bytes that clipping keeps from step to step.
double clipping_bytes(const config::Recipe& recipe);

}  // namespace thinwire::method
