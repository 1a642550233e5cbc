// Completes a recipe by what depends on the machine and on the prepared data.
#pragma once

#include <string>

#include "thinwire/base/cores.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

// Sets model.vocab where the recipe leaves it open, and does what resolve_machine does. Throws
// UsageError for a vocabulary larger than the model's, too.
void resolve(config::Recipe& recipe, const data::Vocabulary& vocabulary);

// Sets train.device and train.precision where the recipe leaves them open. Throws UsageError for
// more threads than cores on which this process may run, and for a device or precision that this
// machine does not have.
void resolve_machine(config::Recipe& recipe);

// A warning if a quota of CPU time does not let all threads of a worker compute; else empty.
std::string thread_warning(const config::Recipe& recipe, const Cores& cores = cores_here());

}  // namespace thinwire::train
