// Files that tests read, and where they write. Only paths.cpp knows their locations, so that every
// other object file of the tests is the same in any checkout and can come from the compiler's
// cache.
#pragma once

#include <filesystem>
#include <string>

namespace thinwire::tests {

// A file of this repository, named from its root.
std::filesystem::path source_file(const std::string& name);

// A file of the data shared by several projects, in a folder that may be absent.
std::filesystem::path shared_data(const std::string& name);

// Where tests write large amounts that need not reach a disk: a folder in memory, which is removed
// with the process, or gtest's temporary folder if TEST_TMPDIR names one or memory has no room.
std::filesystem::path memory_folder();

}  // namespace thinwire::tests
