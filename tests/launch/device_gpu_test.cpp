#include "tests/launch/device_run_case.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::launch {
namespace {

TEST(TrainOnAGpu, DiffersByRoundingAloneAndRepeatsBitForBit) {
  if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  expect_same_runs("cuda");
}

TEST(TrainOnAGpu, StepsOfMuonBetweenExchangesAreTheHostsToRounding) {
  if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  expect_near_muon_runs("cuda");
}

}  // namespace
}  // namespace thinwire::launch
