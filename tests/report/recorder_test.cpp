#include "thinwire/report/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/tiny_run.h"

namespace thinwire::report {
namespace {

using testing::HasSubstr;

TEST(LossMean, IsOfTheLastTenthAndAtMostFiftySteps) {
  LossMean mean;
  EXPECT_EQ(mean.value(), 0);
  int step = 0;
  const auto add_up_to = [&](int last) {
    while (step < last) mean.add(++step);
  };
  add_up_to(10);
  EXPECT_EQ(mean.value(), 10) << "the newest step alone";
  add_up_to(11);
  EXPECT_EQ(mean.steps(), 2);
  EXPECT_EQ(mean.value(), 10.5);
  add_up_to(1000);
  EXPECT_EQ(mean.steps(), 50);
  EXPECT_EQ(mean.value(), (951 + 1000) / 2.0);
}

class RecorderTest : public testing::Test {
 protected:
  // Records steps first to last as one process would, after resuming where first > 1.
  events::Summary record(int64_t first, int64_t last) {
    Recorder recorder(recipe_, folder_, first - 1);
    record(recorder, first, last);
    return recorder.totals().summary();
  }
  static void record(Recorder& recorder, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      events::StepEvent event;
      event.step = step;
      event.loss = 5 + 1.0 / static_cast<double>(step);
      event.tokens = 64;
      event.bytes_sent = 1000;
      recorder.step(event);
      if (step % 10 == 0) recorder.evaluation(step, "validation", 4);
    }
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> texts;
    for (const auto& event : events::read_run_log(log()).messages) texts.push_back(event.text);
    return texts;
  }
  fs::path log() const { return folder_ / "events.jsonl"; }
  fs::path curves() const { return folder_ / "tensorboard"; }
  fs::path newest_curves() const {
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(curves())) {
      newest = std::max(newest, entry.path());
    }
    return newest;
  }
  // What TensorBoard would show: every tag at every step up to `last` once, in order.
  void expect_whole_curves(int64_t last) const {
    std::vector<int64_t> all(static_cast<size_t>(last));
    std::iota(all.begin(), all.end(), 1);
    events::TensorBoardSteps steps = events::tensorboard_steps(curves());
    EXPECT_EQ(steps.size(), 8u);
    std::vector<int64_t> evaluated;
    for (int64_t step = 10; step <= last; step += 10) evaluated.push_back(step);
    EXPECT_EQ(steps["loss/validation"], evaluated);
    steps.erase("loss/validation");
    for (const auto& [tag, found] : steps) EXPECT_EQ(found, all) << tag;
  }

  const fs::path folder_ = test_folder();
  // A batch of 4 rows of 16 tokens.
  const config::Recipe recipe_ =
      tiny_recipe(folder_, {"model.vocab=258", "log.tensorboard=true", "train.steps=200"});
};

TEST_F(RecorderTest, ProgressSaysWhatAStepSends) {
  const config::Recipe recipe = tiny_recipe(folder_, {"model.vocab=258", "log.every=1"});
  testing::internal::CaptureStderr();
  Recorder recorder(recipe, folder_, 0, {.display = events::terminal_display()});
  record(recorder, 1, 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("sent 1[.0]* kB a step  received 0 B a step"));
}

TEST_F(RecorderTest, AnInterruptedRunHasTheSameTrainingLoss) {
  const events::Summary whole = record(1, 120);
  EXPECT_EQ(whole.train_loss_steps, 12);
  EXPECT_NEAR(whole.train_loss, 5 + 1.0 / 114.5, 1e-4);
  record(1, 60);
  EXPECT_EQ(record(41, 120).train_loss, whole.train_loss);
}

TEST_F(RecorderTest, ALogThatWasCutIsRepairedAndItsStepsAreCounted) {
  record(1, 40);
  std::string text = read_text_file(log());
  text.resize(text.find("\"step\":31,") + 20);
  write_file(log(), text);
  const events::Summary summary = record(41, 60);
  EXPECT_EQ(summary.steps, 60);
  EXPECT_EQ(summary.tokens, 60 * 64);
  EXPECT_EQ(summary.bytes_sent_per_worker_step, 1000);
  ASSERT_EQ(messages().size(), 2u);
  EXPECT_THAT(messages()[0], HasSubstr("events.jsonl ended in the middle of a line, as a power"));
  EXPECT_THAT(messages()[1], HasSubstr("events.jsonl lacks 10 of the 40 steps done; the summary"));
  EXPECT_EQ(record(61, 80).steps, 80) << "counted right the next time too";
}

TEST_F(RecorderTest, AMemberThatJoinedLateHasLostNothing) {
  const Recorder member(recipe_, folder_, 40, {.rows = "over this member's rows"});
  EXPECT_EQ(messages().size(), 0u);
}

TEST_F(RecorderTest, TheTrainingLossIsUnknownWhereTheLogLostTheLastSteps) {
  record(1, 40);
  std::string text = read_text_file(log());
  text.resize(text.find("\"step\":7,") + 20);
  write_file(log(), text);
  const events::Summary summary = record(41, 40);
  EXPECT_TRUE(std::isnan(summary.train_loss));
  EXPECT_EQ(events::describe_train_loss(summary),
            "unknown, as the log here does not have the last steps");
  EXPECT_FALSE(std::isnan(record(41, 50).train_loss));
}

TEST_F(RecorderTest, TimeOfStepsThatALogLostIsThatOfTheOthers) {
  record(1, 40);
  fs::remove(log());
  const events::Summary summary = record(41, 50);
  EXPECT_NEAR(summary.seconds, 5.0 * 10 * 64 / summary.tokens_per_second, 1e-9);
}

TEST_F(RecorderTest, CurvesAreInTheirFilesWithEveryCheckpoint) {
  Recorder recorder(recipe_, folder_, 0);
  record(recorder, 1, 10);
  recorder.sync();
  expect_whole_curves(10);
}

TEST_F(RecorderTest, WhatAKilledProcessDidNotWriteOfItsCurvesIsWrittenOnResuming) {
  record(1, 30);
  fs::resize_file(newest_curves(), fs::file_size(newest_curves()) / 2);
  record(21, 40);
  expect_whole_curves(40);
  const events::TensorBoardFile second = events::read_tensorboard(newest_curves());
  EXPECT_GT(second.forgets_from, 5);
  EXPECT_LT(second.scalars.front().wall_time, second.scalars.back().wall_time)
      << "steps have the time at which they were trained";
}

TEST_F(RecorderTest, NothingIsWrittenTwiceWhereCurvesAreWhole) {
  record(1, 30);
  record(21, 40);
  expect_whole_curves(40);
  EXPECT_EQ(events::read_tensorboard(newest_curves()).forgets_from, 21);
}

TEST_F(RecorderTest, CurvesOfAStartWithoutACheckpointAreForgotten) {
  record(1, 30);
  record(1, 10);
  expect_whole_curves(10);
}

TEST_F(RecorderTest, CurvesBehindADamagedRecordAreWrittenAnew) {
  record(1, 30);
  std::string bytes = read_text_file(newest_curves());
  bytes[bytes.size() / 3] ^= 1;
  write_file(newest_curves(), bytes);
  record(31, 40);
  expect_whole_curves(40);
}

}  // namespace
}  // namespace thinwire::report
