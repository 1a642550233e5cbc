#include "thinwire/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

using testing::HasSubstr;

constexpr double kMiB = 1 << 20;

// A root with /proc and /sys of a machine of 1000 MiB, of which 600 are available.
class Machine : public testing::Test {
 protected:
  Machine() { write("proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 614400 kB\nHuge: 1\n"); }
  ~Machine() override { fs::remove_all(root_); }

  void write(const fs::path& name, std::string_view text) {
    fs::create_directories((root_ / name).parent_path());
    write_file(root_ / name, text);
  }
  MachineMemory memory() const { return machine_memory(root_); }

  const fs::path root_ =
      fs::path("memory_test") / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Machine, IsWhatMeminfoSays) {
  EXPECT_EQ(memory().total, 1000 * kMiB);
  EXPECT_EQ(memory().available, 600 * kMiB);
  write("proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 614400 kB\nSwapTotal: 1024 kB\n");
  EXPECT_EQ(memory().total, 1001 * kMiB);
}

TEST_F(Machine, IsLimitedByControlGroupsOfTheSecondVersion) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(memory().total, 1000 * kMiB);
  write("sys/fs/cgroup/outer/memory.max", "209715200\n");  // 200 MiB
  write("sys/fs/cgroup/outer/memory.current", "104857600\n");
  write("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 52428800\n");
  EXPECT_EQ(memory().total, 200 * kMiB);
  EXPECT_EQ(memory().available, 150 * kMiB);
}

TEST_F(Machine, IsLimitedByControlGroupsOfTheFirstVersion) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "314572800\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "314572800\n");
  EXPECT_EQ(memory().total, 300 * kMiB);
  EXPECT_EQ(memory().available, 0);
}

TEST(Memory, OfThisMachineIsKnown) {
  const MachineMemory here = machine_memory();
  EXPECT_GT(here.available, 0);
  EXPECT_GE(here.total, here.available);
}

MemoryNeed need(double weights) {
  return {"this run",
          {{"dust", 1}, {"gradients", weights / 2}, {"weights", weights}},
          "lower model.hidden"};
}

TEST(Memory, TooMuchIsRefusedWithItsParts) {
  try {
    check_memory(need(20e9), {23e9, 12e9});
    FAIL() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "this run needs 30.0 GB of memory (weights 20.0 GB, gradients 10.0 GB), but at most 23.0 "
        "GB are available; lower model.hidden");
  }
  EXPECT_THROW(check_memory(need(1e300), {23e9, 12e9}), UsageError);
}

TEST(Memory, MoreThanIsFreeIsAWarning) {
  EXPECT_THAT(check_memory(need(10e9), {23e9, 12e9}),
              HasSubstr("but only 12.0 GB of 23.0 GB are free; lower model.hidden"));
  EXPECT_EQ(check_memory(need(6e9), {23e9, 12e9}), "");
  EXPECT_EQ(check_memory(need(6e9), {}), "") << "nobody knows how much there is";
}

}  // namespace
}  // namespace thinwire
