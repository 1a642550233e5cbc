// Recipe fields that were set although other fields make them meaningless.
#pragma once

#include <string>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// One sentence for each: "distro.k = 64 is ignored: sync.method is allreduce". Fields at their
// defaults count as not set.
std::vector<std::string> ignored_fields(const config::Recipe& recipe);

}  // namespace thinwire::method
