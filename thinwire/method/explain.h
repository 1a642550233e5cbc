// Explanations of recipe fields, including every method's and optimizer's.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::method {

// config::explain_recipe with the sections and sentences of all methods and optimizers.
std::string explain_recipe(std::string_view what);

}  // namespace thinwire::method
