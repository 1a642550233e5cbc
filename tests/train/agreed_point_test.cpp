#include <gtest/gtest.h>

#include "thinwire/train/run_sink.h"

namespace thinwire::train {
namespace {

TEST(AgreedPoint, SettlesOnTheFirstPointThatNobodyHasPassed) {
  AgreedPoint point;
  EXPECT_EQ(point.reach(3), AgreedPoint::kNone);
  point.settle_here();
  EXPECT_EQ(point.reach(2), 4) << "who is behind goes on until there";
  EXPECT_EQ(point.reach(4), 4);
  point.settle_here();
  EXPECT_EQ(point.reach(4), 4) << "it stays until all have come to it";
  point.all_reached(3);
  EXPECT_EQ(point.reach(4), 4);
  point.all_reached(4);
  point.settle_here();
  EXPECT_EQ(point.reach(5), 5);
}

TEST(AgreedPoint, NobodyPassesWhatWasPromisedBeforeItIsSettled) {
  AgreedPoint point;
  point.reach(7);
  EXPECT_EQ(point.promise(2), 7);
  EXPECT_EQ(point.reach(9), AgreedPoint::kNone);
  EXPECT_TRUE(point.may_pass(9));
  EXPECT_EQ(point.reach(10), std::nullopt);
  EXPECT_FALSE(point.may_pass(10));
  point.settle(12);
  EXPECT_TRUE(point.may_pass(10));
  EXPECT_EQ(point.reach(10), 12);
  EXPECT_EQ(point.promise(0), 10);
  EXPECT_EQ(point.reach(10), AgreedPoint::kNone) << "the point of before is forgotten";
  EXPECT_EQ(point.reach(11), std::nullopt);
}

}  // namespace
}  // namespace thinwire::train
