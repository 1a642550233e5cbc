#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/paths.h"
#include "thinwire/base/file.h"

namespace thinwire {
namespace {

TEST(MemoryFolder, TakesFilesAndStaysTheSame) {
  const fs::path folder = tests::memory_folder();
  write_file(folder / "memory_folder_test", "text");
  EXPECT_EQ(read_text_file(tests::memory_folder() / "memory_folder_test"), "text");
  fs::remove(folder / "memory_folder_test");
}

TEST(MemoryFolder, GivesWayToTheFolderThatIsAskedFor) {
  const fs::path asked = fs::path(testing::TempDir()) / "asked";
  ASSERT_EQ(setenv("TEST_TMPDIR", asked.c_str(), 1), 0);
  EXPECT_EQ(tests::memory_folder().lexically_normal(), (asked / "").lexically_normal());
  unsetenv("TEST_TMPDIR");
}

}  // namespace
}  // namespace thinwire
