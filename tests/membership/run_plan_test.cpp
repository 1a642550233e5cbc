#include "thinwire/membership/run_plan.h"

#include <gtest/gtest.h>

#include "thinwire/schedule/learning_rate.h"

namespace thinwire::membership {
namespace {

TEST(RunPlan, SaysWhatTheRecipeSays) {
  config::Recipe recipe;
  recipe.train.steps = 10;
  recipe.train.batch = 6;
  recipe.train.workers = 2;
  const auto plan = make_run_plan(recipe, 1, [](uint64_t round) {
    return std::vector<PlannedOperation>{{static_cast<uint32_t>(round % 2), 40}};
  });
  EXPECT_EQ(plan->workers(), 2u);
  EXPECT_EQ(plan->batch(), 6u);
  EXPECT_EQ(plan->overlap(), 1u);
  EXPECT_EQ(plan->rounds(), 10u);  // an all-reduce closes a round with every step
  const Opening opening = plan->round(3);
  EXPECT_EQ(opening.round, 3u);
  EXPECT_EQ(opening.first_step, 3u);
  EXPECT_FALSE(opening.last);
  ASSERT_EQ(opening.steps.size(), 1u);
  const double rate = schedule::learning_rate(recipe.schedule, recipe.optim.lr, 10, 3);
  EXPECT_EQ(opening.steps[0], (StepRates{static_cast<float>(rate), static_cast<float>(rate)}));
  EXPECT_EQ(opening.operations, (std::vector<PlannedOperation>{{1, 40}}));
  EXPECT_TRUE(plan->round(9).last);
}

TEST(StepOf, GivesWhatAWorkerTrainsBy) {
  Opening opening;
  opening.round = 4;
  opening.epoch = 2;
  opening.first_step = 8;
  opening.last = true;
  opening.steps = {{0.5f, 0.5f}, {0.25f, 0.75f}};
  opening.roster = {{1, {0, 3}, 6}, {5, {3, 1}, 8}};
  const Round round = step_of(opening, 7, 1);
  EXPECT_EQ(round.run, 7u);
  EXPECT_EQ(round.epoch, 2u);
  EXPECT_EQ(round.number, 4u);
  EXPECT_EQ(round.step, 9u);
  EXPECT_EQ(round.learning_rate, 0.25f);
  EXPECT_EQ(round.round_rate, 0.75f);
  EXPECT_TRUE(round.closes);
  EXPECT_TRUE(round.last);
  ASSERT_EQ(round.size(), 2);
  EXPECT_EQ(round.roster[0].rows.first, 36u);  // nine steps of four rows before it
  EXPECT_EQ(round.roster[1].rows.first, 39u);
  EXPECT_EQ(round.roster[1].id, 5);
  EXPECT_EQ(round.roster[0].weight, 0.75f);
  EXPECT_EQ(round.roster[0].since, 6u);
  EXPECT_FALSE(step_of(opening, 7, 0).closes);
}

}  // namespace
}  // namespace thinwire::membership
