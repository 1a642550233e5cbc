// What to say where a command line does not parse.
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
// as parsing left it, which ended with `error`.
std::string describe_refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace thinwire::cli
