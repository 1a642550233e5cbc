// The memory that a run needs on this machine, predicted from its recipe before anything is
// allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

// The need of a process with `workers_here` of the recipe's train.workers: the weights, gradients
// and state of all of them and, if the CPU computes, their activations and buffers (see memory.h).
// If a run needs more while it reads the model in train.init (train/initial_parameters.h), the part
// "start" says how much more. What it takes to merge factors into that model is not counted. The
// advice names the fields that need most. model.vocab must be set.
MemoryNeed run_memory(const config::Recipe& recipe, int64_t workers_here);

// The parts of that need alone, which are quicker to compute.
std::vector<MemoryPart> memory_parts(const config::Recipe& recipe, int64_t workers_here);

}  // namespace thinwire::method
