#include "thinwire/base/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tests/errors.h"
#include "tests/paths.h"

namespace thinwire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kArray = size_t{1} << 20;
constexpr size_t kArrays = 16;

class OffloadTest : public testing::Test {
 protected:
  OffloadTest() : folder_(tests::memory_folder() / "offload_test") {
    fs::create_directories(folder_);
    offload_ = std::make_unique<Offload>(folder_, 3 * kArray);
  }
  ~OffloadTest() override {
    for (uint8_t* array : arrays_) offload_->deallocate(array);
    offload_.reset();
    fs::remove_all(folder_);
  }

  // Each array's bytes are its number.
  void fill() {
    for (size_t i = 0; i < kArrays; ++i) {
      arrays_.push_back(static_cast<uint8_t*>(offload_->allocate(kArray)));
      offload_->touch(arrays_.back(), kArray, true);
      std::memset(arrays_.back(), static_cast<int>(i), kArray);
    }
  }
  static bool is_all(const uint8_t* array, uint8_t value) {
    return array[0] == value && std::memcmp(array, array + 1, kArray - 1) == 0;
  }
  // The bytes of this process that are mapped from files.
  static int64_t mapped_from_files() {
    std::ifstream in("/proc/self/statm");
    int64_t total = 0, resident = 0, shared = 0;
    in >> total >> resident >> shared;
    return shared * ::sysconf(_SC_PAGESIZE);
  }

  fs::path folder_;
  std::unique_ptr<Offload> offload_;
  std::vector<uint8_t*> arrays_;
};

TEST_F(OffloadTest, ArraysAreZeroAtFirstAndKeepWhatIsWritten) {
  auto* const array = static_cast<uint8_t*>(offload_->allocate(kArray));
  EXPECT_TRUE(is_all(array, 0));
  offload_->deallocate(array);
  fill();
  for (size_t i = 0; i < kArrays; ++i) EXPECT_TRUE(is_all(arrays_[i], static_cast<uint8_t>(i)));
}

TEST_F(OffloadTest, OnlyAWindowStaysInMemory) {
  const int64_t before = mapped_from_files();
  fill();
  EXPECT_LE(offload_->traffic().resident, 3 * kArray);
  EXPECT_LT(mapped_from_files() - before, static_cast<int64_t>(8 * kArray));
  for (uint8_t* array : arrays_) {
    EXPECT_EQ(array[kArray / 2], array[0]);  // read without being touched
    offload_->release(array, kArray);
  }
  EXPECT_EQ(offload_->traffic().resident, 0);
  EXPECT_LT(mapped_from_files() - before, static_cast<int64_t>(8 * kArray));
}

// Sixteen arrays in turn, of which three fit: what was used longest ago is always the next one.
TEST_F(OffloadTest, ReadsAheadInTheOrderInWhichArraysAreUsed) {
  fill();
  for (int round = 0; round < 10'000 && offload_->traffic().foreseen == 0; ++round) {
    for (const uint8_t* array : arrays_) {
      offload_->touch(array, kArray, false);
      ::usleep(100);
    }
  }
  EXPECT_GT(offload_->traffic().foreseen, 0);
}

TEST_F(OffloadTest, WhatDoesNotFitOnTheDiskIsAnErrorWithBothFigures) {
  EXPECT_THAT(tests::error_of([&] { offload_->allocate(size_t{1} << 50); }),
              AllOf(HasSubstr("cannot reserve 1.13 PB"), HasSubstr(folder_.string()),
                    HasSubstr("are free")));
}

TEST_F(OffloadTest, AFolderThatCannotBeWrittenIsAnErrorThatNamesIt) {
  Offload nowhere(folder_ / "missing", kArray);
  EXPECT_THAT(tests::error_of([&] { nowhere.allocate(kArray); }),
              AllOf(HasSubstr("cannot write into"), HasSubstr("missing")));
}

TEST_F(OffloadTest, FilesHaveNoNames) {
  fill();
  EXPECT_TRUE(fs::is_empty(folder_));
}

// A file whose end is gone, as one of a disk that fails.
TEST_F(OffloadTest, WhatCannotBeReadBackIsAnErrorAndNotASignal) {
  fill();
  const auto lose = [&] {
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string file = fs::read_symlink(entry.path(), error).string();
      if (file.starts_with(folder_.string())) fs::resize_file(entry.path(), 0);
    }
  };
  const auto read_lost = [&] {
    lose();
    static_cast<void>(is_all(arrays_.front(), 0));
  };
  EXPECT_EXIT(read_lost(), testing::ExitedWithCode(1), "cannot read back weights");
}

TEST_F(OffloadTest, OrdinaryMemoryIsLeftAlone) {
  fill();
  const std::vector<uint8_t> memory(kArray, 7);
  release_offloaded(memory.data(), memory.size());
  EXPECT_EQ(memory.front(), 7);
  EXPECT_EQ(memory.back(), 7);
}

}  // namespace
}  // namespace thinwire
