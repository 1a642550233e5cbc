// The GPU's kernels, run on the CPU with one lane per tile.
#include "tests/sync/distro_device_case.h"

namespace thinwire::sync {
namespace {

class DistroPortable : public testing::TestWithParam<DeviceCase> {};

TEST_P(DistroPortable, KernelsHaveTheBitsOfTheVectorCode) {
  DeviceRun(GetParam(), {}).expect_same_bits();
}

INSTANTIATE_TEST_SUITE_P(Cases, DistroPortable, testing::ValuesIn(device_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace thinwire::sync
