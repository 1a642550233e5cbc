#include <gtest/gtest.h>

#include "thinwire/events/progress.h"

namespace thinwire::events {
namespace {

TEST(Pace, IsTheMeanOfTheLatestSteps) {
  Pace pace;
  EXPECT_FALSE(pace.step_s());
  pace.note(100, 7);
  EXPECT_FALSE(pace.left_s(200)) << "how long these took is not known";
  pace.note(102, 13);
  EXPECT_EQ(pace.step_s(), 3);
  EXPECT_EQ(pace.left_s(200), 98 * 3);
}

TEST(Pace, ForgetsHowFastItOnceWas) {
  Pace pace;
  for (int64_t step = 0; step < 100; ++step) pace.note(step, 1e-3 * static_cast<double>(step));
  for (int64_t step = 100; step < 200; ++step) pace.note(step, 5 * static_cast<double>(step));
  EXPECT_EQ(pace.step_s(), 5);
}

TEST(Pace, TakesNoTimeFromWhatBringsNothing) {
  Pace pace;
  pace.note(1, 1);
  pace.note(1, 50);
  pace.note(2, 3);
  EXPECT_EQ(pace.step_s(), 2);
}

}  // namespace
}  // namespace thinwire::events
