// The table of optimizers. A new one adds its line in optimizers.cpp.
#pragma once

#include <span>
#include <string_view>

#include "thinwire/method/optimizer.h"

namespace thinwire::method {

std::span<const OptimizerSpec* const> all_optimizers();

// Throws UsageError that lists the known names.
const OptimizerSpec& find_optimizer(std::string_view name);

// Of the optimizer that the recipe names; throws as find_optimizer does.
OptimizerOptions optimizer_options(const config::Recipe& recipe);

}  // namespace thinwire::method
