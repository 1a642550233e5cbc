#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/schedule/schedule.h"

namespace thinwire::schedule {
namespace {

using testing::ElementsAre;

std::vector<int64_t> sends(const FragmentSchedule& schedule, int64_t fragment) {
  std::vector<int64_t> after;
  for (int64_t completed = 1; completed <= schedule.steps; ++completed) {
    if (schedule.sends(fragment, completed)) after.push_back(completed);
  }
  return after;
}

TEST(FragmentSchedule, WholeModelIsSentAtMultiplesAndAtTheEnd) {
  EXPECT_THAT(sends({10, 3, 1}, 0), ElementsAre(3, 6, 9, 10));
  EXPECT_THAT(sends({9, 3, 1}, 0), ElementsAre(3, 6, 9));
  EXPECT_THAT(sends({2, 30, 1}, 0), ElementsAre(2));
}

TEST(FragmentSchedule, FragmentsAreEvenlyStaggered) {
  const FragmentSchedule schedule{20, 8, 4};
  EXPECT_THAT(sends(schedule, 0), ElementsAre(2, 10, 18, 20));
  EXPECT_THAT(sends(schedule, 1), ElementsAre(4, 12, 20));
  EXPECT_THAT(sends(schedule, 2), ElementsAre(6, 14, 20));
  EXPECT_THAT(sends(schedule, 3), ElementsAre(8, 16, 20));
}

TEST(FragmentSchedule, MoreFragmentsThanStepsShareSteps) {
  const FragmentSchedule schedule{4, 2, 3};
  EXPECT_THAT(sends(schedule, 0), ElementsAre(2, 4));
  EXPECT_THAT(sends(schedule, 1), ElementsAre(1, 3, 4));
  EXPECT_THAT(sends(schedule, 2), ElementsAre(2, 4));
}

TEST(FragmentSchedule, NumbersAndStepsOfSendsAgree) {
  for (const int64_t every : {1, 2, 5, 7, 40}) {
    for (const int64_t fragments : {1, 2, 3, 6}) {
      const FragmentSchedule schedule{23, every, fragments};
      for (int64_t fragment = 0; fragment < fragments; ++fragment) {
        const std::vector<int64_t> after = sends(schedule, fragment);
        ASSERT_EQ(schedule.sent(fragment, 23), static_cast<int64_t>(after.size()));
        for (size_t i = 0; i < after.size(); ++i) {
          ASSERT_EQ(schedule.sent_after(fragment, static_cast<int64_t>(i) + 1), after[i])
              << every << " " << fragments << " " << fragment;
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::schedule
