#include "thinwire/train/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/events/run_log.h"

namespace thinwire::train {
namespace {

std::string complaint(const StepPart& first, const StepPart& second) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(folder, {"model.vocab=258"});
  report::Recorder recorder(recipe, folder, 0);
  Collector collector(recorder);
  collector.add_step(1, 0, first);
  try {
    collector.add_step(1, 1, second);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Collector, SaysWhichReplicaDisagreesAboutWhat) {
  StepPart part;
  part.members = 2;
  part.tokens = 1;
  part.synchronised = true;
  StepPart other = part;
  EXPECT_EQ(complaint(part, other), "");
  other.digest = 7;
  EXPECT_THAT(complaint(part, other), testing::HasSubstr("worker 1 has 0000000000000007"));
  other.digest = 0;
  other.state_digest = 5;
  EXPECT_THAT(complaint(part, other), testing::HasSubstr("of worker 1 has 0000000000000005"));
}

// An inactive worker has no gradient, and its digest is compared only if it has one.
TEST(Collector, MeansAreOverWhoTrained) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(folder, {"model.vocab=258"});
  report::Recorder recorder(recipe, folder, 0);
  Collector collector(recorder);
  StepPart there;
  there.members = 2;
  there.tokens = 4;
  there.loss_sum = 6;
  there.gradient_norm = 3;
  StepPart inactive;
  inactive.members = 2;
  collector.add_step(1, 0, inactive);
  collector.add_step(1, 1, there);
  recorder.sync();
  const auto history = events::read_run_log(folder / "events.jsonl");
  ASSERT_EQ(history.steps.size(), 1u);
  EXPECT_EQ(history.steps[0].gradient_norm, 3);
  EXPECT_EQ(history.steps[0].loss, 1.5);
}

// Members have ids of their own, and a round has as many parts as its roster has members.
TEST(Collector, FollowsTheRosterOfTheRound) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(folder, {"model.vocab=258"});
  report::Recorder recorder(recipe, folder, 0);
  Collector collector(recorder);
  StepPart part;
  part.tokens = 1;
  part.synchronised = true;
  const auto step = [&](int64_t number, const std::vector<int>& members) {
    part.members = std::ssize(members);
    part.digest = static_cast<uint64_t>(number);
    for (const int member : members) collector.add_step(number, member, part);
  };
  step(1, {3, 7});
  EXPECT_EQ(collector.last_digest(), 1u);
  step(2, {3, 7, 20});
  EXPECT_EQ(collector.last_digest(), 2u);
  step(3, {20});
  EXPECT_EQ(collector.last_digest(), 3u);
  EvalPart loss{2, 6, 3};
  EXPECT_FALSE(collector.add_evaluation(3, "validation", 7, loss));
  EXPECT_EQ(collector.add_evaluation(3, "validation", 20, loss), 2.0);
}

TEST(Collector, TakesTheMeansOfPairsOverPairs) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(folder, {"model.vocab=258"});
  report::Recorder recorder(recipe, folder, 0);
  Collector collector(recorder);
  StepPart part;
  part.members = 2;
  part.tokens = 100;
  part.loss_sum = 1.5;
  part.pairs = {3, 3, 0.5, -1};
  collector.add_step(1, 0, part);
  part.loss_sum = 0.5;
  part.pairs = {1, 0, -0.25, 0.25};
  collector.add_step(1, 1, part);
  EvalPart loss{1, 6, 3};
  loss.pairs = {4, 1, 2, 1};
  EXPECT_EQ(collector.add_evaluation(1, "validation", 0, loss), 2.0);
  collector.sync();
  const events::RunHistory history = events::read_run_log(folder / "events.jsonl");
  EXPECT_EQ(history.steps.at(0).loss, 0.5);
  EXPECT_EQ(history.steps.at(0).rewards->accuracy, 0.75);
  EXPECT_EQ(history.steps.at(0).rewards->chosen, 0.0625);
  EXPECT_EQ(history.steps.at(0).rewards->margin, 0.25);
  ASSERT_EQ(history.evals.size(), 5u) << "four scores, then the loss";
  EXPECT_EQ(history.evals.at(0).name, "validation.accuracy");
  EXPECT_EQ(history.evals.at(0).loss, 0.25);
  EXPECT_TRUE(history.evals.at(0).score);
}

// A member of a run of many hosts records only itself.
TEST(Collector, SaysOnHowManyTokensAMemberTrains) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(folder, {"model.vocab=258"});
  report::Recorder recorder(recipe, folder, 0,
                            {.rows = "over some rows", .display = events::terminal_display()});
  Collector collector(recorder);
  StepPart part;
  part.members = 1;
  testing::internal::CaptureStderr();
  for (const int64_t step : {1, 2, 3}) {
    part.tokens = step == 1 ? 32 : 64;
    collector.add_step(step, 0, part);
  }
  collector.add_evaluation(3, "validation", 0, {1, 6, 3});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "from step 2 on, this member trains on 64 tokens a step (before: 32)\n"
            "step 3: validation loss 2.0000 over some rows\n");
}

TEST(Collector, LetsReplicasDifferBetweenSynchronisations) {
  StepPart part;
  part.members = 2;
  part.tokens = 1;
  StepPart other = part;
  other.digest = 7;
  EXPECT_EQ(complaint(part, other), "");
}

}  // namespace
}  // namespace thinwire::train
