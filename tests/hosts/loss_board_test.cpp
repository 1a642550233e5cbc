#include <gtest/gtest.h>

#include "thinwire/hosts/run_watch.h"

namespace thinwire::hosts {
namespace {

using membership::Loss;

class Losses : public testing::Test {
 protected:
  void hear(int member, uint64_t step, const std::string& set, double mean, uint64_t tokens) {
    board_.add(Loss{member, step, set, mean * static_cast<double>(tokens), tokens}, 10);
  }
  LossBoard board_{{"validation"}};
};

TEST_F(Losses, AreWeightedByTheTokensTheyAreMeansOver) {
  hear(0, 4, Loss::kTraining, 2, 100);
  hear(1, 4, Loss::kTraining, 4, 300);
  hear(1, 4, Loss::kTraining, 9, 900);
  EXPECT_EQ(board_.reports(Loss::kTraining, 4), 2u) << "a second report does not count";
  const auto points = board_.take_all(4, 0);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].step, 4);
  EXPECT_DOUBLE_EQ(points[0].loss, 3.5);
  EXPECT_TRUE(board_.take_all(4, 0).empty());
}

TEST_F(Losses, OfTrainingAndOfEvaluationsAreTakenUpToStepsOfTheirOwn) {
  for (const uint64_t step : {8, 4}) {
    hear(0, step, Loss::kTraining, 1, 1);
    hear(0, step, "validation", 2, 1);
    hear(0, step, "validation_own", 3, 1);
  }
  const auto points = board_.take_all(8, 7);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].step, 4);
  EXPECT_EQ(points[1].step, 8);
  EXPECT_EQ(points[1].set, Loss::kTraining);
  EXPECT_EQ(points[2].set, "validation");
  EXPECT_EQ(points[3].loss, 3);
  EXPECT_EQ(board_.take("validation", 8).size(), 1u);
  EXPECT_EQ(board_.take("validation_own", 8).size(), 1u);
}

TEST_F(Losses, ThatCannotBeAreNotTaken) {
  hear(0, 11, Loss::kTraining, 1, 1);
  hear(0, uint64_t{1} << 63, Loss::kTraining, 1, 1);
  hear(0, 4, "another set", 1, 1);
  hear(0, 4, "validation", 1, 0);
  EXPECT_TRUE(board_.take_all(20, 20).empty());
  hear(0, 4, "validation", 1, 1);
  EXPECT_TRUE(board_.take_all(20, 20).empty()) << "step 4 was taken already";
}

}  // namespace
}  // namespace thinwire::hosts
