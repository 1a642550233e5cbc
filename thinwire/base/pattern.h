// Patterns over names, as recipes use them to choose tensors.
#pragma once

#include <string_view>

namespace thinwire {

// Whether the pattern matches the whole name: '*' matches any text, every other character only
// itself.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace thinwire
