#include "thinwire/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/errors.h"
#include "tests/file_size_limit.h"
#include "thinwire/base/error.h"

namespace thinwire {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using tests::error_of;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("files_" + std::string(test->name()) + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      all.push_back(entry.path().filename().string());
    }
    return all;
  }

  fs::path folder_;
};

TEST_F(Files, TheNearestFolderOfAPathExists) {
  EXPECT_EQ(nearest_existing(folder_ / "a" / "b"), folder_);
  EXPECT_EQ(nearest_existing(folder_), folder_);
  EXPECT_EQ(nearest_existing("none/here"), fs::current_path());
  ASSERT_TRUE(free_disk_bytes(folder_));
  EXPECT_GT(*free_disk_bytes(folder_ / "a" / "b"), 0u);
}

TEST_F(Files, WriteAppearsWholeAndAlone) {
  write_file(folder_ / "a/b/c.txt", "text");
  EXPECT_EQ(read_text_file(folder_ / "a/b/c.txt"), "text");
  write_file(folder_ / "a/b/c.txt", "other");
  EXPECT_EQ(read_text_file(folder_ / "a/b/c.txt"), "other");
  EXPECT_FALSE(fs::exists(folder_ / "a/b/c.txt.partial"));
}

TEST_F(Files, NoFileTakesThePlaceOfAPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { write_file(pipe, "text"); }), HasSubstr("it is a device or a pipe"));
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_THAT(names(), UnorderedElementsAre("pipe"));
}

TEST_F(Files, LargeFilesAndHeadersWrittenLast) {
  const std::string block(300'000, 'x');
  AtomicFile file(folder_ / "big");
  for (int i = 0; i < 10; ++i) file.write(block);
  EXPECT_EQ(file.size(), 3'000'000u);
  file.write_at(0, as_bytes("head"));
  file.write_at(2'999'999, as_bytes("!"));
  file.write("tail");
  file.commit();
  const std::string text = read_text_file(folder_ / "big");
  EXPECT_EQ(text.size(), 3'000'004u);
  EXPECT_EQ(text.substr(0, 5), "headx");
  EXPECT_EQ(text.substr(2'999'998), "x!tail");
}

TEST_F(Files, WithoutCommitTheOldFileStays) {
  write_file(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.write("new");
    EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  }
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Files, AFullDiskLeavesTheOldFileAndNoRest) {
  write_file(folder_ / "a", "old");
  const std::string large(3'000'000, 'x');
  std::string error;
  {
    const tests::FileSizeLimit limit(1'500'000);
    error = error_of([&] { write_file(folder_ / "a", large); });
  }
  EXPECT_THAT(error, HasSubstr("cannot write " + (folder_ / "a.partial").string()));
  EXPECT_THAT(error, HasSubstr("File too large"));
  EXPECT_EQ(read_text_file(folder_ / "a"), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Files, NoSpaceLeftIsReportedAtTheLatestByCommit) {
  fs::create_symlink("/dev/full", folder_ / "a.partial");
  EXPECT_THAT(error_of([&] { write_file(folder_ / "a", "few bytes"); }),
              HasSubstr("No space left on device"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Files, ATargetThatIsAFolderIsAnErrorAndLeavesNoRest) {
  fs::create_directories(folder_ / "a/inside");
  EXPECT_THAT(error_of([&] { write_file(folder_ / "a", "text"); }),
              HasSubstr("cannot write " + (folder_ / "a").string()));
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Files, AFolderThatCannotBeMadeIsAnError) {
  write_file(folder_ / "a", "text");
  EXPECT_THAT(error_of([&] { write_file(folder_ / "a/b/c", "text"); }),
              HasSubstr("cannot create folder " + (folder_ / "a/b").string()));
}

TEST_F(Files, ReadingWhatIsNotThereNamesThePath) {
  EXPECT_THAT(error_of([&] { read_text_file(folder_ / "none"); }),
              HasSubstr((folder_ / "none").string() + ": No such file"));
  EXPECT_THAT(error_of([&] { read_text_file(folder_); }), HasSubstr("it is a folder"));
  EXPECT_THAT(error_of([&] { MappedFile(folder_ / "none"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { MappedFile{folder_}; }), HasSubstr("not a regular file"));
}

TEST_F(Files, ALinkToNothingIsNamedAsSuch) {
  fs::create_symlink(folder_ / "gone", folder_ / "link");
  const auto named = HasSubstr((folder_ / "link").string() + ": it is a link to " +
                               (folder_ / "gone").string() + ", which does not exist");
  EXPECT_THAT(error_of([&] { read_text_file(folder_ / "link"); }), named);
  EXPECT_THAT(error_of([&] { MappedFile(folder_ / "link"); }), named);
  EXPECT_THAT(error_of([&] { file_exists(folder_ / "link"); }), named);
  EXPECT_THAT(error_of([&] { is_file(folder_ / "link"); }), named);
  EXPECT_FALSE(file_exists(folder_ / "gone"));
  write_file(folder_ / "gone", "text");
  EXPECT_TRUE(file_exists(folder_ / "link"));
  EXPECT_TRUE(is_file(folder_ / "link"));
  EXPECT_FALSE(is_file(folder_));
  EXPECT_EQ(read_text_file(folder_ / "link"), "text");
}

TEST_F(Files, AGitLfsPointerIsNamedAsSuch) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  write_file(folder_ / "pointer", pointer);
  write_file(folder_ / "text", " " + pointer);
  EXPECT_THAT(error_of([&] { read_text_file(folder_ / "pointer"); }),
              HasSubstr((folder_ / "pointer").string() + ": it is a git-lfs pointer"));
  EXPECT_THAT(error_of([&] { MappedFile(folder_ / "pointer"); }), HasSubstr("git lfs pull"));
  EXPECT_EQ(read_text_file(folder_ / "text"), " " + pointer);
}

TEST_F(Files, PublishDirectoryReplacesNothing) {
  write_file(folder_ / "made/a", "new");
  fs::create_directories(folder_ / "taken");
  EXPECT_THAT(error_of([&] { publish_directory(folder_ / "made", folder_ / "taken"); }),
              HasSubstr("exists already; choose another folder"));
  publish_directory(folder_ / "made", folder_ / "free");
  EXPECT_EQ(read_text_file(folder_ / "free/a"), "new");
  EXPECT_THAT(names(), UnorderedElementsAre("taken", "free"));
}

TEST_F(Files, PartsOfMappedFilesThatAreReleasedTakeNoMemoryAndKeepTheirBytes) {
  constexpr int64_t kSize = 64 << 20;
  write_file(folder_ / "large", std::string(kSize, 'x'));
  const MappedFile file(folder_ / "large");
  const auto count = [&] { return std::ranges::count(file.bytes(), uint8_t{'x'}); };
  EXPECT_EQ(count(), kSize);
  const uint64_t before = resident_memory_bytes();
  file.release(file.bytes().subspan(100, kSize / 2));
  EXPECT_LT(resident_memory_bytes() + kSize / 4, before);
  EXPECT_EQ(count(), kSize);
  file.release({});
}

TEST_F(Files, MappedFilesShowTheBytesAndMove) {
  write_file(folder_ / "a", "abc");
  write_file(folder_ / "empty", "");
  MappedFile first(folder_ / "a");
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), 3u);
  EXPECT_EQ(second.bytes()[2], 'c');
  second = MappedFile(folder_ / "empty");
  EXPECT_TRUE(second.bytes().empty());
}

TEST(Memory, PeakIsAtLeastWhatIsResident) {
  EXPECT_GT(resident_memory_bytes(), 100'000u);
  EXPECT_GE(peak_memory_bytes() + 1'000'000, resident_memory_bytes());
}

}  // namespace
}  // namespace thinwire
