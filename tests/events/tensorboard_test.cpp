#include "thinwire/events/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::events {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  return folder;
}

// Three losses, then a resume after step 2, as tensorboard_test.py expects them.
fs::path write_example(const fs::path& folder) {
  {
    TensorBoardWriter writer(folder);
    writer.scalar("train/loss", 1, 3.5);
    writer.scalar("train/loss", 2, 3.25);
    writer.scalar("train/loss", 3, 99);
  }
  TensorBoardWriter writer(folder, 3);
  writer.scalar("train/loss", 3, 3.0);
  writer.scalar("validation/loss", 300, -0.125);
  return writer.path();
}

TEST(TensorBoard, WritesFilesForOtherReaders) {
  const fs::path folder = fs::path(testing::TempDir()) / "tensorboard_example";
  fs::remove_all(folder);
  EXPECT_TRUE(fs::exists(write_example(folder)));
}

TEST(TensorBoard, ReadsBackWhatItWrote) {
  const fs::path folder = fresh_folder("tensorboard_read_back");
  const TensorBoardFile file = read_tensorboard(write_example(folder));
  EXPECT_EQ(file.file_version, "brain.Event:2");
  EXPECT_FALSE(file.torn);
  ASSERT_EQ(file.scalars.size(), 2U);
  EXPECT_EQ(file.scalars[0].tag, "train/loss");
  EXPECT_EQ(file.scalars[0].step, 3);
  EXPECT_EQ(file.scalars[0].value, 3.0F);
  EXPECT_GT(file.scalars[0].wall_time, 1e9);
  EXPECT_EQ(file.scalars[1].tag, "validation/loss");
  EXPECT_EQ(file.scalars[1].step, 300);
  EXPECT_EQ(file.scalars[1].value, -0.125F);
}

TEST(TensorBoard, KnowsWhichStepsAFolderShows) {
  const fs::path folder = fresh_folder("tensorboard_steps");
  EXPECT_TRUE(tensorboard_steps(folder).empty());
  const fs::path newest = write_example(folder);
  write_file(folder / "notes.txt", "no event file");
  TensorBoardSteps steps = tensorboard_steps(folder);
  EXPECT_THAT(steps["train/loss"], ElementsAre(1, 2, 3)) << "3 once, for the resumed run";
  EXPECT_THAT(steps["validation/loss"], ElementsAre(300));
  EXPECT_EQ(read_tensorboard(newest).forgets_from, 3);
  fs::resize_file(newest, fs::file_size(newest) - 1);
  EXPECT_THAT(tensorboard_steps(folder)["validation/loss"], ElementsAre());
}

TEST(TensorBoard, EveryWriterMakesAFileThatSortsAfterEarlierOnes) {
  const fs::path folder = fresh_folder("tensorboard_order");
  const fs::path first = TensorBoardWriter(folder).path();
  const fs::path second = TensorBoardWriter(folder).path();
  EXPECT_LT(first, second);
}

TEST(TensorBoard, LeavesOutATornLastRecord) {
  const fs::path file = write_example(fresh_folder("tensorboard_torn"));
  const auto whole = fs::file_size(file);
  for (const uintmax_t cut : {1U, 5U, 20U, 40U}) {
    fs::resize_file(file, whole - cut);
    const TensorBoardFile read = read_tensorboard(file);
    EXPECT_TRUE(read.torn) << cut;
    EXPECT_EQ(read.scalars.size(), 1U) << cut;
  }
}

TEST(TensorBoard, NamesTheRecordThatIsAltered) {
  const fs::path file = write_example(fresh_folder("tensorboard_altered"));
  std::string bytes = read_text_file(file);
  bytes[20] ^= 1;
  write_file(file, bytes);
  try {
    read_tensorboard(file);
    FAIL() << "accepted an altered file";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string() + ": the record at byte 0 is damaged"));
  }
}

RC_GTEST_PROP(TensorBoard, AnyBytesGiveAValueOrAnError, (const std::string& bytes)) {
  const fs::path file = fs::path(testing::TempDir()) / "tensorboard_any_bytes";
  write_file(file, bytes);
  try {
    RC_ASSERT(read_tensorboard(file).scalars.size() <= bytes.size());
  } catch (const Error&) {
    RC_SUCCEED("refused");
  }
}

TEST(TensorBoard, NamesTheFolderThatCannotBeMade) {
  try {
    const TensorBoardWriter writer("/proc/no/such/folder");
    FAIL() << "made a folder in /proc";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("/proc/no"));
  }
}

}  // namespace
}  // namespace thinwire::events
