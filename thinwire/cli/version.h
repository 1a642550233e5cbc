// Which Thinwire this is.
#pragma once

#include <string>

namespace thinwire::cli {

// What --version prints: version and commit, what the program was built with, and the instruction
// set that it uses on this machine; a line each.
std::string version_text();

// The commit that the build saw, by git: short digest, with "+" where files differed from it, or
// "unknown". Generated (cmake/Commit.cmake).
extern const char* const kCommit;

}  // namespace thinwire::cli
