// A served run is ready for members: says how they join, on the terminal and in the ready file.
#pragma once

#include <string>

#include "thinwire/config/recipe.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/serve_run.h"

namespace thinwire::hosts {

// `recipe`: resolved. Throws Error if options.ready_file cannot be written.
void tell_ready(const ServeOptions& options, const config::Recipe& recipe, const Entrance& entrance,
                const std::string& token);

}  // namespace thinwire::hosts
