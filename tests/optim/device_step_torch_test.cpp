// The steps of a GPU, computed on the CPU with one lane per row.
#include "tests/optim/device_step_case.h"

namespace thinwire::optim {
namespace {

TEST(StepOnADevice, HasTheBitsOfTheHostsStep) { expect_same_steps({}, {}); }

TEST(StepOnADevice, WithoutACounterpartIsComputedOnTheHost) {
  expect_same_steps({"optim.method=muon"}, {});
  expect_same_steps({"optim.state=bf16"}, {});
}

TEST(StepOnADevice, OfAWorkerWithWeightsOfItsOwnMayHaveProductsOfTheDevice) {
  expect_near_muon_steps({});
}

}  // namespace
}  // namespace thinwire::optim
