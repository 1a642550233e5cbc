// Models for which a run trained an adapter (method/adapters/adapter.h), merged with that adapter.
#pragma once

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/convert/load.h"
#include "thinwire/method/adapters/adapter.h"

namespace thinwire::convert {

// The model in `base`, which the factors in `folder` need. Throws Error naming both if there is
// none.
LoadedModel load_base(const fs::path& folder, const fs::path& base);

// Merges the trained tensors into the loaded model's weights, which are those of the base.
void merge_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                   LoadedModel& loaded);

// Fills the weights of loaded.model from a checkpoint whose recipe has an adapter. `base` replaces
// train.init if it is not empty. Throws Error if the base is not the one of the checkpoint.
void read_adapted(const checkpoint::CheckpointReader& reader, const config::Recipe& recipe,
                  const fs::path& base, LoadedModel& loaded);

}  // namespace thinwire::convert
