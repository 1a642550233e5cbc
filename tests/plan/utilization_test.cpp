#include "thinwire/plan/utilization.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "thinwire/base/error.h"
#include "thinwire/plan/eager_table.h"

namespace thinwire::plan {
namespace {

TEST(Utilization, NeverFallsWithBandwidthAndStaysWithinOne) {
  for (const SimulatedModel& model : eager_models()) {
    for (const SyncSchedule& schedule : eager_schedules()) {
      double before = 0;
      for (const double gigabits : eager_grid()) {
        const double share = utilization(model, schedule, gigabits * 1e9);
        EXPECT_LE(share, 1);
        EXPECT_GE(share, before - 1e-9) << model.name << " " << schedule.name << " " << gigabits;
        before = share;
      }
    }
  }
}

// No part of DiLoCo's exchange is hidden: H t / (H t + payload / W).
TEST(Utilization, OfDiLoCoIsTheClosedForm) {
  const SimulatedModel model = eager_models().front();
  EXPECT_NEAR(utilization(model, vanilla_diloco(100), 1.6e9), 0.5, 1e-9);
}

TEST(Utilization, RequiredBandwidthIsEnoughAndAboveThePayloadsRate) {
  const SimulatedModel model = eager_models()[1];
  for (const SyncSchedule& schedule : eager_schedules()) {
    const double needed = required_bandwidth(model, schedule, 0.9);
    EXPECT_GE(utilization(model, schedule, needed), 0.9) << schedule.name;
    EXPECT_LT(utilization(model, schedule, needed * 0.99), 0.9) << schedule.name;
  }
  EXPECT_THROW(required_bandwidth(model, eager_schedules()[0], 1), UsageError);
}

// Both exchange bf16; what differs in the FP4 rows is in docs/planner.md.
TEST(EagerTable, DataParallelAndStreamingAgreeWithinAStepOfTheGrid) {
  int cells = 0;
  for (const EagerCell& cell : eager_cells()) {
    if (cell.schedule.bits != 16 || cell.impossible) continue;
    EXPECT_LE(std::abs(cell.grid_distance), 1)
        << cell.model.name << " " << cell.schedule.name << " " << cell.target;
    ++cells;
  }
  EXPECT_EQ(cells, 30);
}

}  // namespace
}  // namespace thinwire::plan
