// The step of a program that has a model of its own (architectures/external) and takes steps
// itself, with whatever optimizer it has: PyTorch's, for instance (docs/python.md). A worker's
// weights have then been changed when their loss is known, and methods whose workers train
// independently exchange what has become of them.
#pragma once

#include "thinwire/config/recipe.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// In the table of optimizers, but none that goes with the models that this program computes
// (all_optimizers). It has no table of its own.
extern const OptimizerSpec kOwn;

inline bool takes_own_steps(const config::Recipe& recipe) {
  return recipe.optim.method == kOwn.name;
}

}  // namespace thinwire::method
