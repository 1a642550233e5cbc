#include <gtest/gtest.h>

#include <vector>

#include "thinwire/schedule/schedule.h"

namespace thinwire::schedule {
namespace {

TEST(Rounds, EveryStepClosesOneOfItsOwn) {
  const Rounds rounds = {.steps = 4, .every = 1};
  EXPECT_EQ(rounds.count(), 4);
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(rounds.number(step), step);
    EXPECT_EQ(rounds.first_step(step), step);
    EXPECT_EQ(rounds.previous_close(step), step - 1);
    EXPECT_TRUE(rounds.closes(step));
  }
}

TEST(Rounds, LastIsShorterWhereStepsDoNotDivide) {
  const Rounds rounds = {.steps = 8, .every = 3};
  EXPECT_EQ(rounds.count(), 3);
  std::vector<int64_t> closing;
  for (int64_t step = 0; step < 8; ++step) {
    if (rounds.closes(step)) closing.push_back(step);
  }
  EXPECT_EQ(closing, (std::vector<int64_t>{2, 5, 7}));
  EXPECT_EQ(rounds.number(7), 2);
  EXPECT_EQ(rounds.first_step(7), 6);
  EXPECT_EQ(rounds.previous_close(7), 5);
  EXPECT_EQ(rounds.previous_close(2), -1);
}

TEST(Rounds, CloseAtTheEndOnceWhereStepsDivide) {
  const Rounds rounds = {.steps = 6, .every = 3};
  EXPECT_EQ(rounds.count(), 2);
  EXPECT_FALSE(rounds.closes(4));
  EXPECT_TRUE(rounds.closes(5));
}

TEST(Rounds, LongerThanTheRunAreOneRound) {
  const Rounds rounds = {.steps = 5, .every = 100};
  EXPECT_EQ(rounds.count(), 1);
  EXPECT_FALSE(rounds.closes(3));
  EXPECT_TRUE(rounds.closes(4));
  EXPECT_EQ(rounds.previous_close(4), -1);
}

}  // namespace
}  // namespace thinwire::schedule
