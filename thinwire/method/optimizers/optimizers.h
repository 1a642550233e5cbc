// The table of optimizers. A new one adds a line in optimizers/optimizers.inc.
#pragma once

#include <span>
#include <string_view>

#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

std::span<const OptimizerSpec* const> all_optimizers();

// Throws UsageError listing the known names.
const OptimizerSpec& find_optimizer(std::string_view name);

// The options of the recipe's optimizer; throws as find_optimizer does.
OptimizerOptions optimizer_options(const config::Recipe& recipe);

}  // namespace thinwire::method
