// Who forms sums, by measured bandwidth.
#include <gtest/gtest.h>

#include "thinwire/serve/sum_maker.h"

namespace thinwire::serve {
namespace {

constexpr uint64_t kBytes = 10'000'000;

TEST(SumChoice, IsTheCoordinatorAsLongAsNothingIsKnown) {
  SumChoice choice;
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes, kBytes, 0}));
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes, kBytes, 1e6}));
  choice.formed({4, kBytes, kBytes}, 100);
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes, kBytes, 0})) << "what members' lines can do";
}

// Of four, with lines of 10 MB/s: all of them together fetch eight more contributions than sums,
// which takes 8 s if the server's line is no faster than theirs.
TEST(SumChoice, IsTheMembersIfTheyAreFasterWhateverTheServersLineIs) {
  SumChoice choice;
  choice.formed({4, kBytes, kBytes}, 7.9);
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes, kBytes, 1e7}));
  choice.formed({4, kBytes, kBytes}, 8.1);
  EXPECT_FALSE(choice.coordinator_forms({4, kBytes, kBytes, 1e7}));
  EXPECT_TRUE(choice.coordinator_forms({8, kBytes, kBytes, 1e7})) << "48 instead of 8, for 14.6 s";
  EXPECT_FALSE(choice.coordinator_forms({4, 2 * kBytes, 2 * kBytes, 1e7}));
}

// One bit a value and a sum of eight: 7 contributions are fewer bytes than the sum.
TEST(SumChoice, CountsASumOfAnotherSizeThanContributions) {
  SumChoice choice;
  choice.formed({4, kBytes, 8 * kBytes}, 100);
  EXPECT_FALSE(choice.coordinator_forms({8, kBytes, 8 * kBytes, 1e7}));
  SumChoice fast;
  fast.formed({100, kBytes, 8 * kBytes}, 900);
  EXPECT_TRUE(fast.coordinator_forms({100, kBytes, 8 * kBytes, 1e7}))
      << "910 s for all contributions";
}

TEST(SumChoice, IsTheCoordinatorWhereNobodyWouldNoticeTheDifference) {
  SumChoice choice;
  choice.formed({4, kBytes, kBytes}, 8.1);
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes / 10, kBytes / 10, 1e9}));
  EXPECT_FALSE(choice.coordinator_forms({4, kBytes, kBytes, 1e9}));
}

TEST(SumChoice, IsTriedAgain) {
  SumChoice choice;
  choice.formed({4, kBytes, kBytes}, 100);
  for (int sum = 0; sum < 15; ++sum)
    EXPECT_FALSE(choice.coordinator_forms({4, kBytes, kBytes, 1e7}));
  EXPECT_TRUE(choice.coordinator_forms({4, kBytes, kBytes, 1e7}));
  EXPECT_FALSE(choice.coordinator_forms({4, kBytes, kBytes, 1e7})) << "meanwhile";
  choice.formed({4, kBytes, kBytes}, 100);
  EXPECT_FALSE(choice.coordinator_forms({4, kBytes, kBytes, 1e7}));
}

}  // namespace
}  // namespace thinwire::serve
