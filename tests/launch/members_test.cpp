// Workers of unequal speed, workers that leave and come back, and what eager workers know early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class Members : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  events::Summary run(std::vector<std::string> overrides) {
    last_ = folder_ / std::to_string(runs_++);
    std::vector<std::string> all = {"run.dir=" + last_.string(), "sync.method=diloco",
                                    "diloco.sync_every=2", "train.batch=8"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return train(tiny_recipe(folder_, all), {}).summary;
  }

  std::vector<std::string> messages() const {
    std::vector<std::string> texts;
    std::istringstream lines(read_text_file(last_ / "events.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("the workers train") != std::string::npos) texts.push_back(line);
    }
    return texts;
  }

  fs::path folder_;
  fs::path last_;
  int runs_ = 0;
};

const std::vector<std::string> kFastLinks = {"links.step_s=1", "links.delay_s=0",
                                             "links.up_bit_s=1e15", "links.down_bit_s=1e15",
                                             "links.members=[\"1.step_s=3\"]"};

// Equal shares take 3 s per step. With 6 and 2 rows both workers take 1.5 s, from the third round
// of two steps on: the first round is measured, and during the second its speeds are in flight.
TEST_F(Members, SlowWorkersTakeFewerRows) {
  EXPECT_NEAR(run(kFastLinks).seconds_over_links, 36, 1e-4);
  std::vector<std::string> by_speed = kFastLinks;
  by_speed.emplace_back("sync.shares=speed");
  const events::Summary summary = run(by_speed);
  EXPECT_NEAR(summary.seconds_over_links, 4 * 3 + 8 * 1.5, 1e-4);
  EXPECT_NEAR(summary.compute_utilization, (4 * 2 + 8 * 1.5) / 24, 1e-4);
  ASSERT_EQ(messages().size(), 1u);
  EXPECT_THAT(messages()[0],
              testing::HasSubstr(
                  "from step 5 on, the workers train on 96, 32 tokens a step (before: 64, 64)"));
  EXPECT_EQ(run(by_speed).digest, summary.digest);
}

// Speeds are measured over 10 steps, and in flight for 10 more.
TEST_F(Members, SlowWorkersTakeFewerRowsOfMethodsThatSynchroniseEveryStep) {
  for (const char* method : {"sync.method=allreduce", "sync.method=distro"}) {
    std::vector<std::string> by_speed = kFastLinks;
    by_speed.insert(by_speed.end(), {method, "sync.shares=speed", "train.steps=40"});
    const events::Summary summary = run(by_speed);
    EXPECT_NEAR(summary.seconds_over_links, 20 * 3 + 20 * 1.5, 0.01) << method;
    ASSERT_EQ(messages().size(), 1u);
    EXPECT_THAT(messages()[0], testing::HasSubstr("from step 21 on, the workers train on 96, 32"));
    EXPECT_EQ(run(by_speed).digest, summary.digest);
  }
}

// Without simulated links real times decide, and all workers use the same ones.
TEST_F(Members, MeasuredSpeedsAreAgreedOn) {
  EXPECT_EQ(run({"sync.shares=speed", "train.workers=3", "diloco.overlap=eager"}).steps, 12);
}

TEST_F(Members, AbsentWorkersTakeNoRowsAndComeBack) {
  const events::Summary summary = run({"sync.absent=[\"1=2-3\"]", "train.workers=3"});
  EXPECT_EQ(summary.tokens, 12 * 8 * 16) << "the others take its rows";
  ASSERT_EQ(messages().size(), 2u);
  EXPECT_THAT(messages()[0],
              testing::HasSubstr("from step 3 on, the workers train on 64, 0, 64 tokens a step"));
  EXPECT_THAT(messages()[1],
              testing::HasSubstr("from step 7 on, the workers train on 32, 48, 48 tokens a step"));
  EXPECT_NE(run({"train.workers=3"}).digest, summary.digest);
}

// No other worker is active in rounds 3 and 4, so one worker trains them alone.
TEST_F(Members, WhoIsAloneTrainsAlone) {
  EXPECT_LT(run({"sync.absent=[\"0=3-4\", \"2=1-6\"]", "train.workers=3"}).train_loss, 5.5);
}

TEST_F(Members, EagerWorkersEvaluateTheirOwnWeightsToo) {
  run({"diloco.overlap=eager", "eval.every=6"});
  const events::RunHistory history = events::read_run_log(last_ / "events.jsonl");
  std::map<std::pair<int64_t, std::string>, double> losses;
  for (const events::EvalEvent& event : history.evals) {
    losses[{event.step, event.name}] = event.loss;
  }
  for (const std::string set : {"validation", "other"}) {
    EXPECT_NE(losses.at({6, set + "_own"}), losses.at({6, set}));
    EXPECT_EQ(losses.at({12, set + "_own"}), losses.at({12, set})) << "nothing travels any more";
  }
  EXPECT_EQ(run({}).val_loss.count("validation_own"), 0u);
}

// Runs made before these fields existed keep their identity, and with it their folders' names.
TEST_F(Members, FieldsAtTheirDefaultsLeaveARunsIdentityAlone) {
  const std::string identity = checkpoint::run_identity(tiny_recipe(folder_));
  EXPECT_THAT(identity, testing::Not(testing::HasSubstr("shares")));
  EXPECT_THAT(identity, testing::Not(testing::HasSubstr("absent")));
  EXPECT_NE(
      checkpoint::run_identity(tiny_recipe(folder_, {"sync.method=diloco", "sync.shares=speed"})),
      checkpoint::run_identity(tiny_recipe(folder_, {"sync.method=diloco"})));
}

// Members of one run sit at machines of different kinds.
TEST_F(Members, ARunsNameLeavesOutWhatIsEachMachinesOwn) {
  const checkpoint::DataDigests data = {{"train", 7}};
  const auto name = [&](std::vector<std::string> overrides) {
    const config::Recipe recipe = tiny_recipe(folder_, std::move(overrides));
    return checkpoint::new_run_id({recipe, 3, data}, 2);
  };
  const uint64_t plain = name({});
  for (const char* local : {"run.dir=elsewhere", "data.dir=there", "train.threads=2",
                            "train.device=cpu", "train.precision=fp32", "log.tensorboard=true"}) {
    EXPECT_EQ(name({local}), plain) << local;
  }
  EXPECT_NE(name({"optim.lr=0.004"}), plain);
  const checkpoint::DataDigests other = {{"train", 8}};
  EXPECT_NE(checkpoint::new_run_id({tiny_recipe(folder_), 3, other}, 2), plain);
}

}  // namespace
}  // namespace thinwire::launch
