// What the number formats of weights, optimizer state (base/number_format.h) and the inputs of
// blocks require from the rest of a recipe.
#pragma once

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// Throws UsageError that names the field if a format contradicts the rest of the recipe.
void check_formats(const config::Recipe& recipe);

// In which the weights that a run trains are kept: that of train.weights, or with an adapter fp32,
// since there only frozen weights are kept in bf16.
WeightFormat trained_format(const config::Recipe& recipe);

}  // namespace thinwire::method
