
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

std::string said(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return plain_message(error);
  }
  return "";
}

TEST(PlainMessage, NamesWhatCannotBeDoneToWhichFile) {
  const fs::path file = fs::path(testing::TempDir()) / "plain_message";
  const fs::path missing = file.string() + ".missing";
  const std::string name = file.string();
  fs::remove_all(file);
  fs::remove_all(missing);
  EXPECT_EQ(said([&] { fs::directory_iterator{missing}; }),
            "cannot read folder " + name + ".missing: No such file or directory");
  EXPECT_EQ(said([&] { fs::recursive_directory_iterator{missing}; }),
            "cannot read folder " + name + ".missing: No such file or directory");
  EXPECT_EQ(said([&] { fs::rename(missing, file); }),
            "cannot rename " + name + ".missing to " + name + ": No such file or directory");
  EXPECT_EQ(said([&] { static_cast<void>(fs::file_size(missing)); }),
            "cannot look at " + name + ".missing: No such file or directory");
  EXPECT_EQ(said([&] { fs::create_directories("/dev/null/x"); }),
            "cannot create folder /dev/null/x: Not a directory");
  EXPECT_EQ(said([&] { fs::copy_file(missing, file); }),
            "cannot copy " + name + ".missing to " + name + ": No such file or directory");
  const std::string longest(300, 'x');
  EXPECT_EQ(said([&] { static_cast<void>(fs::exists(longest)); }),
            "cannot look at " + longest + ": File name too long");
  EXPECT_EQ(said([&] { fs::resize_file(missing, 1); }),
            "cannot use " + name + ".missing: No such file or directory");
}

TEST(PlainMessage, LeavesOurOwnErrorsAlone) {
  EXPECT_EQ(said([] { throw Error("cannot write x: disk full"); }), "cannot write x: disk full");
}

TEST(PlainMessage, SaysThatMemoryRanOut) {
  EXPECT_EQ(said([] { throw std::bad_alloc(); }), "not enough memory");
}

}  // namespace
}  // namespace thinwire
