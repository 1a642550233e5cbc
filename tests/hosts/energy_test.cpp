#include "thinwire/hosts/energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include "tests/tiny_run.h"
#include "thinwire/base/clock.h"

namespace thinwire::hosts {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutSeconds = 60;

double computed_here() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A machine's files, as MachineWatch's tests have them.
class EnergyOf : public testing::Test {
 protected:
  ~EnergyOf() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    write_file(root_ / file, text + "\n");
  }
  void zone(const std::string& name, const std::string& what, int64_t microjoules) {
    const std::string folder = "sys/class/powercap/" + name + "/";
    write(folder + "name", what);
    write(folder + "max_energy_range_uj", "1000000000");
    write(folder + "energy_uj", std::to_string(microjoules));
  }
  // What all processes have computed.
  void computed(double seconds) {
    write("proc/stat",
          "cpu " + std::to_string(static_cast<int64_t>(100 * seconds)) + " 0 0 5000 0 0 0 0 0 0");
  }

  const fs::path root_ = test_folder();
};

TEST_F(EnergyOf, PackagesAndTheirMemoryIsCountedOnce) {
  zone("intel-rapl", "intel-rapl", 0);
  zone("intel-rapl:0", "package-0", 10'000'000);
  zone("intel-rapl:0:0", "core", 5'000'000);
  zone("intel-rapl:0:1", "dram", 1'000'000);
  zone("intel-rapl:1", "psys", 90'000'000);
  PackageCounters counters(root_);
  ASSERT_TRUE(counters.there());
  ASSERT_TRUE(counters.readable());
  zone("intel-rapl:0", "package-0", 14'000'000);
  zone("intel-rapl:0:0", "core", 8'000'000);
  zone("intel-rapl:0:1", "dram", 1'500'000);
  zone("intel-rapl:1", "psys", 99'000'000);
  EXPECT_DOUBLE_EQ(counters.joules(), 4.5);
  EXPECT_EQ(counters.joules(), 0);
  zone("intel-rapl:0", "package-0", 4'000'000);
  EXPECT_DOUBLE_EQ(counters.joules(), 990) << "the counter began again at 1 kJ";
}

TEST_F(EnergyOf, AProcessIsItsShareOfWhatAllCompute) {
  zone("intel-rapl:0", "package-0", 0);
  computed(100);
  const double before = computed_here();
  EnergyMeter meter({.grid_g_kwh = 360}, nullptr, root_);
  EXPECT_EQ(meter.why_unknown(), "");
  EXPECT_THAT(meter.describe(), HasSubstr("an estimate"));
  zone("intel-rapl:0", "package-0", 80'000'000);
  computed(100.2);
  EXPECT_EQ(meter.spent(1).joules, 0) << "too soon for a share";
  while (computed_here() < before + 0.5) continue;
  computed(102);
  const membership::Spent spent = meter.spent(3);
  EXPECT_EQ(spent.seconds, 3);
  EXPECT_NEAR(spent.joules, 80 * 0.5 / 2, 4);
  EXPECT_DOUBLE_EQ(spent.grams, spent.joules / 1e4);
}

TEST_F(EnergyOf, AMachineIsWhatItsOwnerSays) {
  zone("intel-rapl:0", "package-0", 0);
  EnergyMeter meter({.watts = 65}, std::make_unique<GpuMeter>([] { return 1e6; }), root_);
  EXPECT_THAT(meter.describe(), HasSubstr("65 W"));
  EXPECT_EQ(meter.spent(2), (membership::Spent{.seconds = 2, .joules = 130}));
}

TEST_F(EnergyOf, AMachineThatDoesNotCountIsNotKnown) {
  EXPECT_THAT(EnergyMeter({}, nullptr, root_).why_unknown(), HasSubstr("does not count"));
  zone("intel-rapl:0", "package-0", 0);
  fs::remove(root_ / "sys/class/powercap/intel-rapl:0/energy_uj");  // as if it could not be read
  EnergyMeter meter({}, nullptr, root_);
  EXPECT_THAT(meter.why_unknown(), HasSubstr("only root may read"));
  EXPECT_EQ(meter.spent(2), (membership::Spent{.seconds = 2}));
}

TEST_F(EnergyOf, AGpuIsItsPowerTimesTheTime) {
  std::atomic<int> asked = 0;
  const Stopwatch watch;
  double joules = 0;
  {
    GpuMeter gpu(
        [&] {
          ++asked;
          return 200.0;
        },
        0.001);
    while (asked < 20 && watch.seconds() < kTimeoutSeconds) joules += gpu.joules();
    joules += gpu.joules();
  }
  EXPECT_GT(joules, 0);
  EXPECT_LE(joules, 200 * watch.seconds());
  GpuMeter unknown([] { return -1.0; }, 0.001);
  EXPECT_EQ(unknown.joules(), 0);
}

TEST_F(EnergyOf, AGpuIsAskedOfNvidiaSmi) {
  const fs::path program = root_ / "nvidia-smi";
  write("nvidia-smi", "#!/bin/sh\n[ \"$3\" = --id=2 ] && echo ' 71.25'");
  fs::permissions(program, fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (root_.string() + ":" + path).c_str(), 1);
  setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
  EXPECT_EQ(gpu_watts(), 71.25);
  setenv("CUDA_VISIBLE_DEVICES", "4", 1);
  EXPECT_LT(gpu_watts(), 0) << "it failed";
  setenv("PATH", path.c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace thinwire::hosts
