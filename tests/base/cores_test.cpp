#include "thinwire/base/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thinwire {
namespace {

// A root with /proc and /sys in which control groups can be placed.
class CoresHere : public testing::Test {
 protected:
  ~CoresHere() override { fs::remove_all(root_); }

  void write(const fs::path& name, std::string_view text) const {
    fs::create_directories((root_ / name).parent_path());
    write_file(root_ / name, text);
  }
  double quota() const { return cores_here(root_).quota; }

  const fs::path root_ =
      fs::path("cores_test") / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CoresHere, HaveNoQuotaWithoutControlGroups) {
  EXPECT_EQ(quota(), 0);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CoresHere, HaveTheLeastQuotaOfTheGroupsOfTheSecondVersion) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CoresHere, HaveTheQuotaOfAGroupOfTheFirstVersion) {
  write("proc/self/cgroup", "9:name=systemd:/\n3:cpuset:/\n4:cpu,cpuacct:/box\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2.5);
}

// A container of the first version sees its own group as the root of /sys/fs/cgroup, whatever path
// /proc gives.
TEST_F(CoresHere, HaveTheQuotaOfAContainer) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/1234\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST(Cores, AreUsableWhereAffinityAndQuotaAllowIt) {
  EXPECT_EQ((Cores{32, 32, 0}.usable()), 32);
  EXPECT_EQ((Cores{32, 4, 0}.usable()), 4);
  EXPECT_EQ((Cores{32, 4, 8}.usable()), 4);
  EXPECT_EQ((Cores{32, 32, 2.9}.usable()), 2);
  EXPECT_EQ((Cores{32, 32, 0.2}.usable()), 1);
}

TEST(Cores, SayWhyTheyAreNotAllUsable) {
  EXPECT_EQ((Cores{1, 1, 0}.describe()), "1 core");
  EXPECT_EQ((Cores{32, 32, 64}.describe()), "32 cores");
  EXPECT_EQ((Cores{32, 4, 8}.describe()), "4 of 32 cores (the affinity mask allows no others)");
  EXPECT_EQ((Cores{32, 32, 2.5}.describe()), "2 of 32 cores (a quota of CPU time allows 2.5)");
}

TEST(Cores, OfThisMachineAreAtLeastOne) {
  const Cores here = cores_here();
  EXPECT_GE(here.usable(), 1);
  EXPECT_LE(here.usable(), here.affinity);
  EXPECT_EQ(available_cores(), here.usable());
}

}  // namespace
}  // namespace thinwire
