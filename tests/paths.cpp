#include "tests/paths.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <system_error>

namespace thinwire::tests {
namespace {

namespace fs = std::filesystem;

// The contract tests, which need the most, use about 30 MB at once.
constexpr std::uintmax_t kMinFree = 256 << 20;

// A folder of this process in memory, removed when the process ends; an empty path if there is no
// room.
class MemoryFolder {
 public:
  MemoryFolder() {
    const char* memory = "/dev/shm";
    std::error_code error;
    const fs::space_info space = fs::space(memory, error);
    if (error || space.available < kMinFree) return;
    std::string name = std::string(memory) + "/thinwire_XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    if (!path.empty() && getpid() == owner_) fs::remove_all(path, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  fs::path path;

 private:
  const pid_t owner_ = getpid();  // a forked child leaves it alone
};

}  // namespace

std::filesystem::path source_file(const std::string& name) {
  return std::filesystem::path(THINWIRE_SOURCE_DIR) / name;
}

std::filesystem::path shared_data(const std::string& name) {
  return std::filesystem::path(THINWIRE_SHARED_DATA) / name;
}

std::filesystem::path memory_folder() {
  if (std::getenv("TEST_TMPDIR") != nullptr) return testing::TempDir();
  static const MemoryFolder folder;
  return folder.path.empty() ? fs::path(testing::TempDir()) : folder.path;
}

}  // namespace thinwire::tests
