// The messages for command lines that cannot be parsed.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace thinwire::cli {

// An option as documentation names it: RECIPE, --over.
std::string label(const CLI::Option& option);

// One sentence in our own words, with what was probably meant or how the command is used. `app` is
// in the state in which parsing left it when it failed with `error`.
std::string describe_refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace thinwire::cli
