// The steps of a GPU, computed on the CPU with one lane per row.
#include <fmt/format.h>

#include "tests/optim/device_step_case.h"

namespace thinwire::optim {
namespace {

TEST(StepOnADevice, HasTheBitsOfTheHostsStep) {
  for (const char* state : {"fp32", "bf16", "8bit"}) {
    SCOPED_TRACE(state);
    expect_same_steps({fmt::format("optim.state={}", state)}, {});
  }
}

TEST(StepOnADevice, StateThatIsNotFiniteEndsIt) { expect_not_finite({}); }

TEST(StepOnADevice, WithoutACounterpartIsComputedOnTheHost) {
  expect_same_steps({"optim.method=muon"}, {});
  expect_same_steps({"optim.method=muon", "optim.state=8bit"}, {});
}

TEST(StepOnADevice, OfAWorkerWithWeightsOfItsOwnMayHaveProductsOfTheDevice) {
  for (const char* state : {"fp32", "bf16", "8bit"}) {
    SCOPED_TRACE(state);
    expect_near_muon_steps(state, {});
  }
}

}  // namespace
}  // namespace thinwire::optim
