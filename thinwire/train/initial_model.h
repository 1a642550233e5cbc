// The model that a run trains, where train.init brings it: what [model] and the table of its
// architecture leave out is the initial model's, and what they say must agree with it.
#pragma once

#include <map>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"

namespace thinwire::train {

// Completes a recipe with train.init by the model in that folder (anything convert::load_model
// takes), of which only the description is read. Left to the recipe: init_std and recompute, which
// say nothing of what is computed, and a count of 0, which leaves it open. Throws UsageError that
// names each field that contradicts, both its values and what can be done, or what
// method::check_choices finds in the completed recipe; Error where the folder holds no model. A
// recipe without train.init stays as it is.
void take_initial_model(config::Recipe& recipe);

// The same for a run that goes on: by the checkpoint it goes on from. What contradicts stays, for
// checkpoint::check_resume to judge.
void take_resumed_model(config::Recipe& recipe, const fs::path& checkpoint);

// Files, by name, that checkpoints of the run keep of the Hugging Face folder its model is from
// (convert/hf_origin.h). checkpoint: the one it goes on from; empty: it begins.
std::map<std::string, std::string> origin_files(const config::Recipe& recipe,
                                                const fs::path& checkpoint);

}  // namespace thinwire::train
