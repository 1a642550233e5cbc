#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/serve/stray_cleaner.h"

namespace thinwire::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr StrayAllowance kAllowance{1, 2, 1};

using Blobs = std::vector<transport::StoredBlob>;

// So many blobs of one chunk; different ones for different `first`.
Blobs names(uint8_t first, size_t count) {
  Blobs made(count);
  for (size_t i = 0; i < count; ++i) {
    made[i].name.bytes = {first, static_cast<uint8_t>(i), static_cast<uint8_t>(i >> 8)};
    made[i].chunks = 1;
  }
  return made;
}

Blobs both(Blobs some, const Blobs& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

TEST(StrayAllowance, AllowsFourPayloadsOfAnOperationAndFourSnapshots) {
  EXPECT_EQ((StrayAllowance{3, 10, 2}.in(5)), (5 + 2) * 4 * 3 + 4 * 10u);
}

class StrayChunksTest : public testing::Test {
 protected:
  // Member 0 alone, while this round is the next.
  StrayChunks::Finding list(uint64_t next_round, const Blobs& strays) {
    chunks_.begin(next_round);
    return chunks_.listed(0, strays, kAllowance);
  }
  StrayChunks chunks_;
};

TEST_F(StrayChunksTest, AreSpentOnceNothingCanCountThem) {
  const auto some = names(1, 2);
  EXPECT_THAT(list(3, some).spent, IsEmpty());
  EXPECT_THAT(list(3 + kSpentRounds - 1, some).spent, IsEmpty());
  EXPECT_THAT(list(3 + kSpentRounds, some).spent, ElementsAre(some[0].name, some[1].name));
}

TEST_F(StrayChunksTest, AreSpentByTheTimeSinceTheyBecameStraysAgain) {
  const auto some = names(1, 1);
  list(3, some);
  list(10, {});  // used meanwhile
  list(12, some);
  EXPECT_THAT(list(3 + kSpentRounds, some).spent, IsEmpty());
  EXPECT_THAT(list(12 + kSpentRounds, some).spent, ElementsAre(some[0].name));
}

TEST_F(StrayChunksTest, OfOneMemberAreNotAnothers) {
  const auto some = names(1, 1);
  list(3, some);
  chunks_.begin(3 + kSpentRounds);
  EXPECT_THAT(chunks_.listed(1, some, kAllowance).spent, IsEmpty());
  EXPECT_THAT(chunks_.listed(0, some, kAllowance).spent, ElementsAre(some[0].name));
}

TEST_F(StrayChunksTest, ThatAnEarlierHostMayHaveLeftAreNotCounted) {
  const auto many = names(1, 1000);
  EXPECT_FALSE(list(3, many).suspicious);
  EXPECT_FALSE(list(4, many).too_many());
  EXPECT_FALSE(list(5, many).too_many());
}

TEST_F(StrayChunksTest, AreTooManyIfMoreThanAllowedAppearAndStay) {
  const uint64_t allowed = kAllowance.in(2);
  list(3, names(1, 50));
  const auto just = both(names(1, 50), names(2, allowed));
  EXPECT_FALSE(list(5, just).suspicious);
  const auto more = both(just, names(3, allowed + 1));
  const auto at_first = list(7, more);
  EXPECT_TRUE(at_first.suspicious);
  EXPECT_EQ(at_first.appeared, allowed);
  EXPECT_FALSE(at_first.too_many()) << "the next list shows which of them stay";
  const auto then = list(7, more);
  EXPECT_TRUE(then.too_many());
  EXPECT_EQ(then.appeared, allowed + 1);
  EXPECT_EQ(then.allowed, allowed);
  EXPECT_FALSE(list(7, more).too_many()) << "each is counted once";
}

TEST_F(StrayChunksTest, OfABlobThatGrowsAreCounted) {
  Blobs one = names(1, 1);
  one[0].chunks = 2;
  list(3, one);
  one[0].chunks = 1002;
  EXPECT_TRUE(list(4, one).suspicious);
  const auto then = list(4, one);
  EXPECT_EQ(then.appeared, 1000u);
  EXPECT_TRUE(then.too_many());
  EXPECT_FALSE(list(4, one).too_many()) << "each is counted once";
}

TEST_F(StrayChunksTest, OfAMemberThatJoinedSinceTheFirstListingAreCounted) {
  list(3, {});
  const auto many = names(1, 1000);
  for (const bool too_many : {false, true, false}) {
    chunks_.begin(200);
    EXPECT_EQ(chunks_.listed(7, many, kAllowance).too_many(), too_many);
    EXPECT_FALSE(chunks_.listed(0, {}, kAllowance).too_many());
  }
}

// A snapshot that was just replaced, of which the list still had the chunks.
TEST_F(StrayChunksTest, ThatAreGoneInTheNextListAreNotCounted) {
  list(3, {});
  EXPECT_TRUE(list(4, names(2, 1000)).suspicious);
  EXPECT_FALSE(list(4, {}).too_many());
}

TEST_F(StrayChunksTest, OfALedgerThatLostRoundsAreKeptForLonger) {
  const auto some = names(1, 1);
  list(100, some);
  EXPECT_THAT(list(20, some).spent, IsEmpty());
  EXPECT_THAT(list(20 + kSpentRounds, some).spent, ElementsAre(some[0].name));
}

TEST(ListingSchedule, ListsAtFirstAndWhenTheStoreHasGrown) {
  ListingSchedule schedule;
  EXPECT_TRUE(schedule.is_due(0, 10, 0, 0, 100));
  schedule.listed(100, 0, 0, false);
  EXPECT_FALSE(schedule.is_due(110, 10, 0, 1, 100));
  EXPECT_TRUE(schedule.is_due(111, 10, 0, 1, 100));
}

TEST(ListingSchedule, ListsOnceBothRoundsAndTimeHavePassed) {
  ListingSchedule schedule;
  schedule.listed(0, 7, 50, false);
  EXPECT_FALSE(schedule.is_due(0, 1, 7 + kSpentRounds, 149, 100));
  EXPECT_FALSE(schedule.is_due(0, 1, 7 + kSpentRounds - 1, 1000, 100));
  EXPECT_TRUE(schedule.is_due(0, 1, 7 + kSpentRounds, 150, 100));
}

TEST(ListingSchedule, ListsAgainWhatWasSuspicious) {
  ListingSchedule schedule;
  schedule.listed(0, 7, 50, true);
  EXPECT_TRUE(schedule.is_due(0, 1, 7, 51, 100));
}

}  // namespace
}  // namespace thinwire::serve
