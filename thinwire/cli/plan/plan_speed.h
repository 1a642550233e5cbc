// How fast this machine trains, for plans without a given speed.
#pragma once

#include "thinwire/config/recipe.h"

namespace thinwire::cli {

// FLOP/s of training steps of the recipe's worker, measured here for a few seconds, with a message
// on stderr. model.vocab must be set. If a step does not fit into memory or would take minutes,
// throws UsageError naming the options that give the speed instead.
double flops_here(const config::Recipe& recipe);

}  // namespace thinwire::cli
