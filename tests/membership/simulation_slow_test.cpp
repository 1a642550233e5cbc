#include <gtest/gtest.h>

#include "simulation.h"

namespace thinwire::membership {
namespace {

TEST(SimulationSlow, TenThousandSchedulesOfFaultsEndWell) {
  for (uint64_t seed = 400; seed < 10400; ++seed) {
    const Outcome outcome = Simulation(seed).run();
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace thinwire::membership
