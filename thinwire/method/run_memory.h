// What a run takes of this machine's memory, predicted from its recipe before anything is
// allocated.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/memory.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

// The need of a process that has `workers_here` of the recipe's train.workers: weights, gradients,
// state, and, where the processor computes, activations and buffers (see memory.h), of all of them
// together. What lasts only while a run starts is not counted. Its advice names the fields that ask
// for most. model.vocab must be set.
MemoryNeed run_memory(const config::Recipe& recipe, int64_t workers_here);

}  // namespace thinwire::method
