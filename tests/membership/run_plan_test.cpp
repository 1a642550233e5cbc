#include "thinwire/membership/run_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/registry.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::membership {
namespace {

config::Recipe recipe_of(std::vector<std::string> fields) {
  std::vector<std::string> all = {"train.steps=10", "train.batch=6", "train.workers=2",
                                  "model.vocab=64"};
  all.insert(all.end(), fields.begin(), fields.end());
  return method::load_recipe("", all);
}

TEST(RecipePlan, SaysWhatTheRecipeSays) {
  const config::Recipe recipe = recipe_of({"allreduce.wire=fp32"});
  const std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  const RecipePlan plan(recipe, tensors);
  EXPECT_EQ(plan.workers(), 2u);
  EXPECT_EQ(plan.batch(), 6u);
  EXPECT_EQ(plan.overlap(), 0u);
  EXPECT_EQ(plan.rounds(), 10u);  // an all-reduce closes a round with every step
  const Opening opening = plan.round(3);
  EXPECT_EQ(opening.round, 3u);
  EXPECT_EQ(opening.first_step, 3u);
  EXPECT_FALSE(opening.last);
  ASSERT_EQ(opening.steps.size(), 1u);
  const double rate = schedule::learning_rate(recipe.schedule, recipe.optim.lr, 10, 3);
  EXPECT_EQ(opening.steps[0], (StepRates{static_cast<float>(rate), static_cast<float>(rate)}));
  const auto operations = method::operations_of(recipe, tensors, method::RunKind::kHosted)(3);
  ASSERT_EQ(operations.size(), 1u) << "an all-reduce does not hide";
  EXPECT_EQ(opening.operations, (std::vector<PlannedOperation>{{0, operations[0].bytes}}));
  EXPECT_TRUE(plan.round(9).last);
}

TEST(RecipePlan, KeepsAsManyRoundsOpenAsAreInFlight) {
  const auto overlap = [](std::vector<std::string> fields) {
    const config::Recipe recipe = recipe_of(std::move(fields));
    return RecipePlan(recipe, method::tensors_of(recipe)).overlap();
  };
  const std::string diloco = "sync.method=diloco";
  EXPECT_EQ(overlap({"sync.method=distro"}), 0u);
  EXPECT_EQ(overlap({"sync.method=distro", "distro.overlap=1"}), 1u);
  EXPECT_EQ(overlap({diloco, "diloco.sync_every=5"}), 0u);
  EXPECT_EQ(
      overlap({diloco, "diloco.sync_every=5", "diloco.overlap=inner", "diloco.overlap_steps=2"}),
      1u);
  EXPECT_EQ(overlap({diloco, "diloco.sync_every=2", "diloco.overlap=eager", "diloco.depth=2"}), 2u);
  EXPECT_EQ(overlap({diloco, "diloco.sync_every=5", "diloco.overlap=eager",
                     "diloco.overlap_after=2", "train.steps=10"}),
            0u)
      << "no send may be in flight";
}

// A secure sum has four operations after one step, each of which needs the results of the one
// before.
TEST(RecipePlan, HasRoundsWithoutSteps) {
  const config::Recipe recipe =
      recipe_of({"sync.method=diloco", "diloco.sync_every=4", "diloco.wire=fp32", "data.own=true",
                 "privacy.secure_sums=true"});
  const RecipePlan plan(recipe, method::tensors_of(recipe));
  ASSERT_EQ(plan.rounds(), 3 * 4u);
  EXPECT_EQ(plan.overlap(), 0u);
  for (uint64_t sum = 0; sum < 3; ++sum) {
    const uint64_t first = 4 * sum, end = std::min<uint64_t>(4 * (sum + 1), 10);
    EXPECT_EQ(plan.round(first).first_step, 4 * sum);
    EXPECT_EQ(plan.round(first).steps.size(), end - 4 * sum);
    for (uint64_t later = first + 1; later < first + 4; ++later) {
      EXPECT_EQ(plan.round(later).first_step, end);
      EXPECT_TRUE(plan.round(later).steps.empty());
      EXPECT_EQ(plan.round(later).operations.size(), 1u);
    }
    const auto last = plan.operation_of(first + 2, 0);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->round, end - 1);
    EXPECT_EQ(plan.round_of_operation(end - 1, 0), first + 2);
    EXPECT_EQ(plan.round_of_operation(end - 1, method::kRevealsFragment), first + 3);
    EXPECT_EQ(plan.round_of(end - 1), first);
    EXPECT_EQ(plan.last_ended(end), first + 3);
    EXPECT_EQ(plan.settled_rounds(end), first + 4);
    EXPECT_EQ(plan.settled_rounds(end - 1), first);
    EXPECT_TRUE(plan.ends_after(end));
  }
  EXPECT_FALSE(plan.round(10).last);
  EXPECT_TRUE(plan.round(11).last);
  Opening opening = plan.round(8);
  opening.roster = {{0, {0, 6}, 0}};
  EXPECT_TRUE(plan.step(opening, 1, 9).last) << "the run's last step";
  EXPECT_FALSE(plan.step(opening, 1, 8).last);
}

TEST(RecipePlan, CutsRoundsWhereFragmentsAreSent) {
  const config::Recipe recipe = recipe_of(
      {"sync.method=streaming", "streaming.sync_every=6", "streaming.fragment_layers=1",
       "model.layers=4", "streaming.overlap=inner", "streaming.overlap_steps=1", "train.steps=12"});
  const std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  const RecipePlan plan(recipe, tensors);
  EXPECT_GT(plan.rounds(), 2u);
  uint64_t next = 0;
  for (uint64_t number = 0; number < plan.rounds(); ++number) {
    const Opening opening = plan.round(number);
    EXPECT_EQ(opening.first_step, next);
    next += opening.steps.size();
    EXPECT_TRUE(plan.ends_after(next));
    for (uint64_t step = opening.first_step; step < next; ++step) {
      EXPECT_EQ(plan.round_of(step), number);
      const Round round = plan.step(opening, 7, step);
      EXPECT_EQ(round.number, step / 6);
      EXPECT_EQ(round.closes, step % 6 == 5);
      EXPECT_EQ(round.step, step);
    }
    const auto operations = method::operations_of(recipe, tensors)(static_cast<int64_t>(next) - 1);
    ASSERT_EQ(opening.operations.size(), operations.size());
    for (const method::Operation& operation : operations) {
      EXPECT_EQ(plan.round_of_operation(operation.round, operation.fragment), number);
    }
  }
  EXPECT_EQ(next, 12u);
  EXPECT_EQ(plan.round_of_operation(1000, 0), std::nullopt);
}

TEST(RecipePlan, KnowsWhenNothingOfARoundIsInFlight) {
  const config::Recipe waits = recipe_of({"sync.method=diloco", "diloco.sync_every=5"});
  const RecipePlan plan(waits, method::tensors_of(waits));
  EXPECT_EQ(plan.settled_rounds(4), 0u);
  EXPECT_EQ(plan.settled_rounds(5), 1u);
  const config::Recipe goes_on = recipe_of({"sync.method=distro", "distro.overlap=1"});
  const RecipePlan overlapped(goes_on, method::tensors_of(goes_on));
  EXPECT_EQ(overlapped.settled_rounds(1), 0u);
  EXPECT_LT(overlapped.settled_rounds(3), 3u);
  EXPECT_EQ(overlapped.settled_rounds(10), 10u);
}

TEST(RecipePlan, RefusesClusters) {
  const config::Recipe recipe =
      recipe_of({"sync.method=diloco", "sync.within=allreduce", "sync.clusters=1"});
  EXPECT_THROW(RecipePlan(recipe, method::tensors_of(recipe)), UsageError);
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
