// Early stopping and the best checkpoint, which depend on the loss on eval.watch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/convert/load.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

TEST(BestLoss, CountsEvaluationsSinceTheLowest) {
  checkpoint::BestLoss best;
  EXPECT_FALSE(best.exhausts(1));
  best.add(10, 3.0);
  best.add(20, 3.0);
  EXPECT_EQ(best.step, 10);
  EXPECT_EQ(best.since, 1);
  EXPECT_TRUE(best.exhausts(1));
  EXPECT_FALSE(best.exhausts(0));
  best.add(30, 2.0);
  EXPECT_EQ(best.step, 30);
  EXPECT_FALSE(best.exhausts(1));
}

class Best : public testing::Test {
 protected:
  Best() : folder_(test_folder()) { prepare_tiny_corpus(folder_); }

  // The rate rises until it is far too high, so that only the first evaluations are good ones.
  config::Recipe recipe(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {
        "eval.every=2",   "optim.lr=3",      "schedule.kind=constant", "schedule.warmup=20",
        "train.steps=40", "train.workers=3", "eval.rows=20",           "checkpoint.minutes=0"};
    all.insert(all.end(), more.begin(), more.end());
    return tiny_recipe(folder_, all);
  }
  fs::path run() const { return folder_ / "run"; }
  checkpoint::BestLoss lowest() const {
    checkpoint::BestLoss best;
    for (const auto& one : events::read_run_log(run() / "events.jsonl").evals) {
      if (one.name == "validation") best.add(one.step, one.loss);
    }
    return best;
  }
  fs::path checkpoint(int64_t step) const {
    return run() / "checkpoints" / checkpoint::checkpoint_name(static_cast<uint64_t>(step));
  }

  fs::path folder_;
};

TEST_F(Best, PatienceEndsTheRunAndABestCheckpointStays) {
  const std::vector<std::string> fields = {"eval.patience=3", "checkpoint.best=true",
                                           "checkpoint.keep=1"};
  const TrainResult ended = train(recipe(fields), {});
  ASSERT_EQ(ended.outcome, Outcome::kFinished);
  ASSERT_LT(ended.step, 40);
  EXPECT_EQ(ended.summary.steps, ended.step);
  const checkpoint::BestLoss best = lowest();
  EXPECT_EQ(best.since, 3);
  EXPECT_EQ(best.step + 3 * 2, ended.step);
  EXPECT_TRUE(checkpoint::is_checkpoint(checkpoint(best.step)));
  EXPECT_TRUE(checkpoint::is_checkpoint(checkpoint(ended.step)));
  EXPECT_FALSE(checkpoint::is_checkpoint(checkpoint(ended.step - 2)))
      << "neither the newest nor the best";
  EXPECT_EQ(checkpoint::CheckpointReader(run() / "best").meta().step,
            static_cast<uint64_t>(best.step));
  EXPECT_NO_THROW(convert::load_model(run() / "best"));
  EXPECT_THAT(events::read_run_log(run() / "events.jsonl").messages.back().text,
              HasSubstr("evaluations the loss on validation has not fallen below"));
  EXPECT_EQ(train(recipe(fields), {}).outcome, Outcome::kAlreadyFinished);
}

TEST_F(Best, AResumedRunEndsEarlyAtTheSameStep) {
  const std::string patience = "eval.patience=3";
  const TrainResult whole =
      train(recipe({patience, "checkpoint.every=1", "checkpoint.keep=99"}), {});
  ASSERT_LT(whole.step, 40);
  const int64_t best = lowest().step;
  for (const int64_t step : {best - 1, best, best + 3, best + 4, whole.step}) {
    fs::remove(run() / "summary.json");
    for (int64_t later = step + 1; later <= 40; ++later) fs::remove_all(checkpoint(later));
    const TrainResult again =
        train(recipe({patience, "checkpoint.every=1", "checkpoint.keep=99"}), {});
    EXPECT_EQ(again.step, whole.step) << "resumed after " << step;
    EXPECT_EQ(again.summary.digest, whole.summary.digest) << "resumed after " << step;
  }
}

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Best, ASetThatIsNotThereIsWrongUse) {
  EXPECT_THAT(complaint([&] {
                train(recipe({"eval.patience=3", "eval.watch=mine"}), {});
              }),
              HasSubstr("which has other, validation"));
  EXPECT_THAT(complaint([&] {
                recipe({"eval.patience=3", "eval.every=0"});
              }),
              HasSubstr("[eval] patience = 3 needs every > 0"));
}

}  // namespace
}  // namespace thinwire::launch
