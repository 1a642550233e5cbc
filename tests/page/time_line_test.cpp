#include <gtest/gtest.h>

#include <numeric>

#include "thinwire/page/live_run.h"

namespace thinwire::page {
namespace {

float seconds_of(const TimeLines& lines, size_t member, ActivityKind activity) {
  float sum = 0;
  for (const TimeLines::Bucket& bucket : lines.of(member))
    sum += bucket[static_cast<size_t>(activity)];
  return sum;
}

TEST(TimeLines, DivideASpanAmongItsBuckets) {
  TimeLines lines(100);
  ASSERT_EQ(lines.bucket_s(), 0.5);
  lines.spend(1, ActivityKind::kWaiting, 100.25, 101.125);
  const auto line = lines.of(1);
  ASSERT_EQ(line.size(), 3u);
  const auto waiting = static_cast<size_t>(ActivityKind::kWaiting);
  EXPECT_FLOAT_EQ(line[0][waiting], 0.25);
  EXPECT_FLOAT_EQ(line[1][waiting], 0.5);
  EXPECT_FLOAT_EQ(line[2][waiting], 0.125);
  EXPECT_TRUE(lines.of(0).empty());
  EXPECT_TRUE(lines.of(2).empty());
}

TEST(TimeLines, LeaveOutWhatIsBeforeTheStartOrHasNoPlaceOnThem) {
  TimeLines lines(100);
  lines.spend(0, ActivityKind::kComputing, 90, 99);
  lines.spend(0, ActivityKind::kComputing, 103, 102);
  lines.spend(0, ActivityKind::kLeft, 100, 110);
  lines.spend(0, ActivityKind::kTraining, 100, 110);
  EXPECT_TRUE(lines.of(0).empty());
  lines.spend(0, ActivityKind::kComputing, 90, 101);
  EXPECT_FLOAT_EQ(seconds_of(lines, 0, ActivityKind::kComputing), 1);
}

TEST(TimeLines, KeepTheirSizeAndEverySecondHoweverLongTheRun) {
  TimeLines lines(0);
  for (int second = 0; second < 5000; ++second) {
    const ActivityKind activity =
        second % 4 == 0 ? ActivityKind::kWaiting : ActivityKind::kComputing;
    lines.spend(0, activity, second, second + 1);
    ASSERT_LE(lines.of(0).size(), TimeLines::kMost);
  }
  EXPECT_EQ(lines.bucket_s(), 32);
  EXPECT_NEAR(seconds_of(lines, 0, ActivityKind::kWaiting), 1250, 0.1);
  EXPECT_NEAR(seconds_of(lines, 0, ActivityKind::kComputing), 3750, 0.1);
  lines.spend(0, ActivityKind::kLost, 5000, 1e7);  // a clock that was set
  EXPECT_LE(lines.of(0).size(), TimeLines::kMost);
}

}  // namespace
}  // namespace thinwire::page
