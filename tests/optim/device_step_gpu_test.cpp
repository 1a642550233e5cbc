#include "tests/optim/device_step_case.h"

namespace thinwire::optim {
namespace {

TEST(StepOnAGpu, HasTheBitsOfTheHostsStep) {
  if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  expect_same_steps({}, {Device::kCuda, 0});
  expect_same_steps({"optim.state=bf16"}, {Device::kCuda, 0});
  expect_same_steps({"optim.state=8bit"}, {Device::kCuda, 0});
  expect_same_steps({"optim.method=muon"}, {Device::kCuda, 0});
}

TEST(StepOnAGpu, OfAWorkerWithWeightsOfItsOwnMayHaveProductsOfTheDevice) {
  if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  expect_near_muon_steps("fp32", {Device::kCuda, 0});
  expect_near_muon_steps("8bit", {Device::kCuda, 0});
}

}  // namespace
}  // namespace thinwire::optim
