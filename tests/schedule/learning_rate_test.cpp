// Compares with tests/golden/schedule.json, which tests/golden/make_schedule.py made.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::schedule {
namespace {

TEST(LearningRate, HasTheReferencesBitsAtEveryStep) {
  const auto golden =
      parse_json<nlohmann::json>(read_text_file(tests::source_file("tests/golden/schedule.json")));
  ASSERT_GE(golden["cases"].size(), 4u);
  for (const auto& reference : golden["cases"]) {
    config::ScheduleSection schedule;
    schedule.kind = value_named<config::ScheduleKind>(reference["kind"].get<std::string>()).value();
    schedule.warmup = reference["warmup"];
    schedule.final_ratio = reference["final_ratio"];
    schedule.decay = reference.value("decay", 0);
    const int64_t steps = reference["steps"];
    for (int64_t step = 0; step < steps; ++step) {
      const double expected = reference["lr"][static_cast<size_t>(step)];
      EXPECT_EQ(learning_rate(schedule, reference["peak"], steps, step), expected)
          << name_of(schedule.kind) << " step " << step;
    }
  }
}

TEST(LearningRate, IsDefinedWhenEveryStepIsWarmup) {
  config::ScheduleSection schedule;
  schedule.warmup = 4;
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(learning_rate(schedule, 1.0, 4, step), 0.25 * static_cast<double>(step + 1));
  }
  EXPECT_EQ(learning_rate(schedule, 1.0, 4, 4), 1.0);
}

}  // namespace
}  // namespace thinwire::schedule
