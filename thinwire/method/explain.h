// What the fields of a recipe mean, with every method's, optimizer's and architecture's.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::method {

// config::explain_recipe with the sections and sentences of all methods, optimizers and
// architectures.
std::string explain_recipe(std::string_view what);

}  // namespace thinwire::method
