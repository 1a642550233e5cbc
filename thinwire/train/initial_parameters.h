// The parameters a run begins with.
#pragma once

#include "thinwire/config/recipe.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::train {

// Fills `params`, laid out as recipe.model says, from train.init or at random from run.seed. Throws
// UsageError when the model of train.init has other shapes.
void set_initial_parameters(const config::Recipe& recipe, tensor::Arena& params);

}  // namespace thinwire::train
