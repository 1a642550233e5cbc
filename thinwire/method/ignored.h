// Fields of a recipe that were set and mean nothing beside its other fields.
#pragma once

#include <string>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// A sentence for each, "distro.k = 64 is ignored: sync.method is allreduce"; fields at their
// defaults count as not set.
std::vector<std::string> ignored_fields(const config::Recipe& recipe);

}  // namespace thinwire::method
