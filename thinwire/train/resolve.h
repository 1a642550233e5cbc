// Completes a recipe by what depends on the machine and on the prepared data.
#pragma once

#include <span>
#include <string>

#include "thinwire/base/cores.h"
#include "thinwire/checkpoint/checkpoint.h"
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

// Throws UsageError if the recipe decides by a validation set (eval.watch) that is not among
// `names`, those of the prepared data.
void check_watch(const config::Recipe& recipe, std::span<const std::string> names);

// Why a run ended before its last step, in a sentence.
std::string why_early(const config::Recipe& recipe, const checkpoint::BestLoss& best);

// A warning if a quota of CPU time does not let all threads of a worker compute; else empty.
std::string thread_warning(const config::Recipe& recipe, const Cores& cores = cores_here());

}  // namespace thinwire::train
