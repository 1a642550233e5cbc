// Reads TOML, for recipes and sweeps. Any thread.
#pragma once

#include <toml++/toml.h>

#include <string_view>

namespace thinwire::config {

// Throws UsageError "origin:line: what is wrong" for a text that is not TOML, or whose tables and
// lists are nested so deeply that toml++, which frees them recursively, would exhaust the stack.
toml::table parse_toml(std::string_view text, std::string_view origin);

}  // namespace thinwire::config
