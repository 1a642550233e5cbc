// The program `thinwire` as a function.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace thinwire::cli {

// Does what the arguments, as main() gets them, ask for. Errors are reported on stderr, in one line
// that begins with the program's name. Returns the exit status: 0 done, 1 failed, 2 usage error;
// interrupted work ends the process by the signal that interrupted it.
int run_program(int argc, const char* const* argv);

// The version of the program.

// What --version prints: version and commit, what the program was built with, and the instruction
// set that it uses on this machine, one line each.
std::string version_text();

// The git commit of the build: the short hash, with "+" if files differed from it, or "unknown".
// Generated (cmake/Commit.cmake).
extern const char* const kCommit;

// The messages for command lines that cannot be parsed.

// An option as documentation names it: RECIPE, --over.
std::string label(const CLI::Option& option);

// One sentence in our own words, with what was probably meant or how the command is used. `app` is
// in the state in which parsing left it when it failed with `error`.
std::string describe_refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace thinwire::cli
