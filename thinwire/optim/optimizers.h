// The arithmetic of each folder of thinwire/optimizers.
#pragma once

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

#define THINWIRE_OPTIMIZER(Name) extern const OptimizerEntry k##Name;
#include "thinwire/optimizers/optimizers.inc"
#undef THINWIRE_OPTIMIZER

}  // namespace thinwire::optim
