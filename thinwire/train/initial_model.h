// The model that a run trains if train.init names one. Fields that [model] and the architecture's
// table leave out are taken from the initial model; fields that they set must agree with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

// Completes a recipe that has train.init from the model in that folder (anything that
// convert::load_model takes). Only the model's description is read. A count of 0 is treated as left
// out. init_std, recompute, block_inputs and vocab_slabs stay as in the recipe because they do not
// affect the model. Throws UsageError that names each conflicting field, both its values and the
// remedy, or for what method::check_choices finds in the completed recipe; throws Error if the
// folder holds no model. A recipe without train.init is left unchanged.
void take_initial_model(config::Recipe& recipe);

// The same for a resumed run, from the checkpoint that it resumes. Conflicting fields are left
// unchanged for checkpoint::check_resume to judge.
void take_resumed_model(config::Recipe& recipe, const fs::path& checkpoint);

// Files, by name, that the run's checkpoints keep for an export: of the Hugging Face folder that
// its model came from, and the chat template of its data (convert/hf_origin.h). `checkpoint` is the
// one that the run resumes; empty for a new run.
std::map<std::string, std::string> origin_files(const config::Recipe& recipe,
                                                const fs::path& checkpoint);

// The files of the model in train.init (convert::model_files). Throws UsageError naming the field
// if the folder does not hold all of it.
std::vector<fs::path> initial_model_files(const config::Recipe& recipe);

// What the user should know of a run on chats whose turns end with another token than the model's
// texts (convert/end_tokens.h); empty: nothing.
std::string turn_end_note(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                          const fs::path& checkpoint = {});

}  // namespace thinwire::train
