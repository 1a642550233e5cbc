// The version of the program.
#pragma once

#include <string>

namespace thinwire::cli {

// What --version prints: version and commit, what the program was built with, and the instruction
// set that it uses on this machine, one line each.
std::string version_text();

// The git commit of the build: the short hash, with "+" if files differed from it, or "unknown".
// Generated (cmake/Commit.cmake).
extern const char* const kCommit;

}  // namespace thinwire::cli
