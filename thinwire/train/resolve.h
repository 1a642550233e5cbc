// Completes a recipe by what depends on the machine and on the prepared data.
#pragma once

#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

// Sets model.vocab, train.device and train.precision where the recipe leaves them open, and checks
// them. Throws UsageError for a vocabulary larger than the model's, for more threads than cores,
// and for a device or precision that this machine does not have.
void resolve(config::Recipe& recipe, const data::Vocabulary& vocabulary);

}  // namespace thinwire::train
