// What an interrupted run has on disk, and what it does when it is resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

struct Unheard : events::Listener {
  void on_event(const events::StepEvent&) override {}
  void on_event(const events::EvalEvent&) override {}
  void on_event(const events::MessageEvent&) override {}
  void on_event(const events::WorkerStep&) override {}
};

class Interruption : public testing::Test {
 protected:
  Interruption() : folder_(test_folder()) {}

  fs::path checkpoint(uint64_t step) const {
    return folder_ / "run/checkpoints" / checkpoint::checkpoint_name(step);
  }
  size_t checkpoints() const {
    size_t count = 0;
    for (uint64_t step = 1; step <= 12; ++step)
      count += checkpoint::is_checkpoint(checkpoint(step)) ? 1 : 0;
    return count;
  }
  events::RunHistory history() const { return events::read_run_log(folder_ / "run/events.jsonl"); }
  std::string elsewhere(const std::string& name) const {
    return "run.dir=" + (folder_ / name).string();
  }

  fs::path folder_;
};

TEST_F(Interruption, CheckpointsComeByTimeWithoutChangingTheBits) {
  prepare_tiny_corpus(folder_);
  EXPECT_EQ(tiny_recipe(folder_).checkpoint.minutes, 5);
  const auto digest = [&](const std::string& method, const std::string& dir,
                          const std::string& minutes) {
    return train(tiny_recipe(folder_, {"sync.method=" + method, dir, minutes, "checkpoint.keep=100",
                                       "train.workers=3"}),
                 {})
        .summary.digest;
  };
  // With local_sgd, members may be several steps apart from each other.
  for (const std::string method : {"allreduce", "local_sgd"}) {
    fs::remove_all(folder_ / "run");
    const std::string whole = digest(method, elsewhere(method), "checkpoint.minutes=0");
    EXPECT_EQ(digest(method, elsewhere("run"), "checkpoint.minutes=1e-9"), whole);
    EXPECT_GT(checkpoints(), 1u);
    for (uint64_t step = 12; checkpoints() > 1; --step) fs::remove_all(checkpoint(step));
    fs::remove(folder_ / "run/summary.json");
    EXPECT_EQ(digest(method, elsewhere("run"), "checkpoint.minutes=0"), whole);
  }
}

TEST_F(Interruption, AnEvaluationIsLeftAtOnceAndDoneWhenTheRunGoesOn) {
  prepare_tiny_corpus(folder_, 20'000);
  std::vector<std::string> fields = {"eval.every=6", "checkpoint.every=6", "model.hidden=128",
                                     "llama.intermediate=512"};
  const config::Recipe recipe = tiny_recipe(folder_, fields);
  std::atomic<bool> stop = false;
  // As soon as there is a checkpoint.
  struct Stopper : Unheard {
    explicit Stopper(std::atomic<bool>& stop) : stop(stop) {}
    void on_checkpoint(const events::CheckpointEvent&) override { stop = true; }
    std::atomic<bool>& stop;
  } stopper(stop);
  const TrainResult stopped =
      train(recipe, {.stop = &stop, .listen = [&](const auto&, int64_t) { return &stopper; }});
  EXPECT_EQ(stopped.outcome, Outcome::kStopped);
  EXPECT_EQ(stopped.step, 6) << "its checkpoint was there before it was evaluated";
  EXPECT_LT(history().evals.size(), 2u);

  fields.emplace_back("eval.rows=16");
  train(tiny_recipe(folder_, fields), {});
  const auto evaluations = history().evals;
  ASSERT_EQ(evaluations.size(), 4u) << "each of two sets after 6 and after 12 steps";
  EXPECT_EQ(evaluations[0].step, 6);
  EXPECT_EQ(evaluations[1].step, 6);
}

TEST_F(Interruption, OnlyTheFinalEvaluationIsDoneWhereOnlyItIsMissing) {
  prepare_tiny_corpus(folder_);
  const events::Summary whole = train(tiny_recipe(folder_), {}).summary;
  const fs::path log = folder_ / "run/events.jsonl";
  std::string lines = read_text_file(log);
  const std::string trained = lines.substr(0, lines.find("{\"event\":\"eval\""));
  lines.resize(lines.find("{\"event\":\"eval\"", trained.size() + 1));  // the last of two sets
  write_file(log, lines);
  fs::remove(folder_ / "run/summary.json");
  const auto written = fs::last_write_time(checkpoint(12));
  const TrainResult again = train(tiny_recipe(folder_), {});
  EXPECT_EQ(again.outcome, Outcome::kFinished);
  EXPECT_EQ(again.summary.digest, whole.digest);
  EXPECT_EQ(again.summary.val_loss, whole.val_loss);
  EXPECT_EQ(history().steps.size(), 12u);
  EXPECT_EQ(history().evals.size(), 2u);
  EXPECT_EQ(fs::last_write_time(checkpoint(12)), written);
}

TEST_F(Interruption, ARunWithoutACheckpointSaysThatItStartsAnew) {
  prepare_tiny_corpus(folder_);
  const std::atomic<bool> stop = true;
  train(tiny_recipe(folder_), {.stop = &stop});
  EXPECT_TRUE(history().messages.empty());
  train(tiny_recipe(folder_), {});
  ASSERT_EQ(history().messages.size(), 1u);
  EXPECT_THAT(history().messages[0].text, HasSubstr("has no checkpoint yet; starting over"));
}

}  // namespace
}  // namespace thinwire::launch
