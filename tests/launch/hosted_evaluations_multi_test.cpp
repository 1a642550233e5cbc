// Runs of many hosts that evaluations end early, and whose best weights they choose (eval.patience,
// checkpoint.best).
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"
#include "thinwire/membership/options.h"

namespace thinwire::launch {
namespace {

using membership::State;

class HostedEvaluations : public testing::TestWithParam<std::string> {
 protected:
  HostedEvaluations() : folder_(test_folder()) { prepare_tiny_corpus(folder_); }

  // The rate rises until it is far too high, so that only the first evaluations are good ones.
  config::Recipe recipe(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {
        "eval.every=3",         "schedule.kind=constant",   "schedule.warmup=20",
        "train.steps=60",       "train.workers=2",          "eval.rows=20",
        "checkpoint.minutes=0", "eval.patience=2",          "sync.timeout_s=600",
        "checkpoint.best=true", "sync.method=" + GetParam()};
    if (GetParam() == "diloco") all.insert(all.end(), {"diloco.sync_every=4", "optim.lr=1"});
    if (GetParam() == "allreduce") all.emplace_back("optim.lr=3");
    if (GetParam() == "distro") all.insert(all.end(), {"distro.overlap=1", "optim.lr=0.5"});
    all.insert(all.end(), more.begin(), more.end());
    return tiny_recipe(folder_, all);
  }
  // The same run with threads of one process.
  TrainResult train_alone() {
    TrainResult trained = train(recipe({"run.dir=" + (folder_ / "alone").string()}), {});
    EXPECT_LT(trained.step, 60) << "its loss keeps falling";
    return trained;
  }
  HostedRun serve() const { return {recipe(), folder_, membership::options_of(recipe())}; }
  static void expect_end(const member::MemberResult& result, const TrainResult& alone) {
    EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished) << result.why;
    EXPECT_EQ(result.steps, alone.step);
    EXPECT_EQ(result.summary.steps, alone.step);
    EXPECT_EQ(to_hex(result.digest), alone.summary.digest);
  }
  // The steps of the best checkpoint in a run's folder; nothing if it has none.
  static std::optional<uint64_t> best_of(const fs::path& run) {
    if (!fs::exists(run / "best")) return std::nullopt;
    return checkpoint::CheckpointReader(run / "best").meta().step;
  }
  fs::path member(int number) const { return folder_ / ("member" + std::to_string(number)); }

  fs::path folder_;
};

TEST_P(HostedEvaluations, EndTheRunWhereThreadsEndItAndKeepTheSameBestWeights) {
  const TrainResult alone = train_alone();
  HostedRun run = serve();
  for (const int number : {0, 1}) run.start(number);
  for (const int number : {0, 1}) expect_end(run.wait(number), alone);
  const State state = run.host().state();
  EXPECT_TRUE(state.finished);
  EXPECT_EQ(state.evaluated.best_step, best_of(folder_ / "alone"));
  for (const int number : {0, 1}) {
    EXPECT_EQ(best_of(member(number)), state.evaluated.best_step) << number;
    const auto last = checkpoint::newest_checkpoint(member(number) / "checkpoints");
    ASSERT_TRUE(last);
    EXPECT_EQ(checkpoint::CheckpointReader(*last).meta().step, static_cast<uint64_t>(alone.step));
  }
}

TEST_P(HostedEvaluations, EndItForWhoReturnsAndForWhoComesLate) {
  const TrainResult alone = train_alone();
  HostedRun run = serve();
  run.hold_at(4);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until([](const State& state) { return state.evaluated.step >= 3; });
  EXPECT_EQ(run.leave(1).outcome, member::MemberOutcome::kLeft);
  run.start(1);
  run.start(2);
  run.wait_until([](const State& state) { return state.members.size() == 3; });
  run.release();
  const member::MemberResult first = run.wait(0);
  EXPECT_LT(first.steps, 60);
  for (const int number : {1, 2}) {
    const member::MemberResult result = run.wait(number);
    EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished) << result.why;
    EXPECT_EQ(result.steps, first.steps) << number;
    EXPECT_EQ(to_hex(result.digest), to_hex(first.digest)) << number;
    EXPECT_TRUE(checkpoint::newest_checkpoint(member(number) / "checkpoints")) << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedEvaluations,
                         testing::Values("allreduce", "diloco", "distro"));

}  // namespace
}  // namespace thinwire::launch
