#include "simulation.h"

#include <gtest/gtest.h>

#include "tests/sanitized.h"

namespace thinwire::membership {
namespace {

constexpr uint64_t kSchedules = tests::kSanitized ? 40 : 400;
constexpr uint64_t kParts = 8;

// In parts, none of which takes long on a slow machine.
class EverySchedule : public testing::TestWithParam<uint64_t> {};

TEST_P(EverySchedule, OfFaultsEndsWell) {
  for (uint64_t seed = GetParam(); seed < kSchedules; seed += kParts) {
    const Outcome outcome = Simulation(seed).run();
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Simulation, EverySchedule, testing::Range(uint64_t{0}, kParts));

TEST(Simulation, TheSameSeedGivesTheSameTrace) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(Simulation(seed).run().trace, Simulation(seed).run().trace) << seed;
  }
  EXPECT_NE(Simulation(1).run().trace, Simulation(2).run().trace);
}

}  // namespace
}  // namespace thinwire::membership
