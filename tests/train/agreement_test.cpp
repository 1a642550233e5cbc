#include "thinwire/train/agreement.h"

#include <gtest/gtest.h>

namespace thinwire::train {
namespace {

TEST(Agreement, SettlesOnTheFirstPointThatNobodyHasPassed) {
  Agreement agreement;
  EXPECT_EQ(agreement.reach(3), Agreement::kNone);
  agreement.settle_here();
  EXPECT_EQ(agreement.reach(2), 4) << "who is behind goes on until there";
  EXPECT_EQ(agreement.reach(4), 4);
  agreement.settle_here();
  EXPECT_EQ(agreement.reach(4), 4) << "it stays until all have come to it";
  agreement.all_reached(3);
  EXPECT_EQ(agreement.reach(4), 4);
  agreement.all_reached(4);
  agreement.settle_here();
  EXPECT_EQ(agreement.reach(5), 5);
}

TEST(Agreement, NobodyPassesWhatWasPromisedBeforeItIsSettled) {
  Agreement agreement;
  agreement.reach(7);
  EXPECT_EQ(agreement.promise(2), 7);
  EXPECT_EQ(agreement.reach(9), Agreement::kNone);
  EXPECT_TRUE(agreement.may_pass(9));
  EXPECT_EQ(agreement.reach(10), std::nullopt);
  EXPECT_FALSE(agreement.may_pass(10));
  agreement.settle(12);
  EXPECT_TRUE(agreement.may_pass(10));
  EXPECT_EQ(agreement.reach(10), 12);
  EXPECT_EQ(agreement.promise(0), 10);
  EXPECT_EQ(agreement.reach(10), Agreement::kNone) << "the point of before is forgotten";
  EXPECT_EQ(agreement.reach(11), std::nullopt);
}

}  // namespace
}  // namespace thinwire::train
