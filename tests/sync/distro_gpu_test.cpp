// DisTrO's kernels on a GPU against the CPU's code, bit for bit.
#include "tests/sync/distro_device_case.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::sync {
namespace {

class DistroGpu : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  }
};

TEST_P(DistroGpu, KernelsHaveTheBitsOfTheProcessor) {
  DeviceRun(GetParam(), {Device::kCuda, 0}).expect_same_bits();
}

INSTANTIATE_TEST_SUITE_P(Cases, DistroGpu, testing::ValuesIn(device_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace thinwire::sync
