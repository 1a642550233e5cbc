// How fast this machine trains, for plans that are not told.
#pragma once

#include "thinwire/config/recipe.h"

namespace thinwire::cli {

// FLOP/s of training steps of the recipe's worker, measured here for some seconds and announced on
// stderr. model.vocab must be set. Throws UsageError, which names the options that say the speed
// instead, where a step does not fit into memory or would take minutes.
double flops_here(const config::Recipe& recipe);

}  // namespace thinwire::cli
