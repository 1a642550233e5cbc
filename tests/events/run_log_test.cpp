#include "thinwire/events/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/file_size_limit.h"
#include "thinwire/base/error.h"

namespace thinwire::events {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunLogTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove(file_); }
  void TearDown() override { fs::remove(file_); }

  void append_raw(std::string_view text) { std::ofstream(file_, std::ios::app) << text; }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const StepEvent& event : read_run_log(file_).steps) result.push_back(event.step);
    return result;
  }
  std::string read_error() const {
    try {
      read_run_log(file_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path file_ =
      fs::path(testing::TempDir()) /
      ("run_log_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
       ".jsonl");
};

StepEvent step(int64_t number) {
  StepEvent event;
  event.step = number;
  return event;
}

TEST_F(RunLogTest, ReadsBackEveryFieldOfAStep) {
  StepEvent written = {7,      3.25, 1e-3, 0.5,  4096,
                       1234.5, 6e9,  2800, 8400, {{"data", 0.1}, {"compute", 0.7}}};
  RunLog(file_).write(written);
  const RunHistory history = read_run_log(file_);
  ASSERT_EQ(history.steps.size(), 1U);
  const StepEvent& read = history.steps[0];
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.loss, 3.25);
  EXPECT_EQ(read.learning_rate, 1e-3);
  EXPECT_EQ(read.gradient_norm, 0.5);
  EXPECT_EQ(read.tokens, 4096);
  EXPECT_EQ(read.tokens_per_second, 1234.5);
  EXPECT_EQ(read.model_flops_per_second, 6e9);
  EXPECT_EQ(read.bytes_sent, 2800);
  EXPECT_EQ(read.bytes_received, 8400);
  EXPECT_EQ(read.seconds, written.seconds);
  EXPECT_FALSE(read.rewards);
  EXPECT_FALSE(history.torn);
}

TEST_F(RunLogTest, ReadsBackTheRewardsOfPairs) {
  StepEvent written = step(1);
  written.rewards = {0.75, 0.5, 0.125, -0.375};
  RunLog(file_).write(written);
  const RunHistory history = read_run_log(file_);
  ASSERT_TRUE(history.steps.at(0).rewards);
  for (const RewardField& field : kRewardFields) {
    EXPECT_EQ((*history.steps[0].rewards).*field.value, (*written.rewards).*field.value)
        << field.name;
  }
}

TEST_F(RunLogTest, ReadsBackEvaluationsAndMessagesAndLeavesOutOtherEvents) {
  RunLog log(file_);
  log.write(EvalEvent{10, "validation", 2.5});
  log.write(EvalEvent{10, "arc_easy.acc", 0.25, 0, true});
  log.write(MessageEvent{10, "wrote \"checkpoint\"\nand went on"});
  log.write("digest", {{"step", 10}, {"value", "00ff"}});
  const RunHistory history = read_run_log(file_);
  ASSERT_EQ(history.evals.size(), 2U);
  EXPECT_EQ(history.evals[1].name, "arc_easy.acc");
  EXPECT_EQ(history.evals[1].loss, 0.25);
  EXPECT_TRUE(history.evals[1].score);
  EXPECT_EQ(history.evals[0].name, "validation");
  EXPECT_EQ(history.evals[0].loss, 2.5);
  EXPECT_FALSE(history.evals[0].score);
  ASSERT_EQ(history.messages.size(), 1U);
  EXPECT_EQ(history.messages[0].text, "wrote \"checkpoint\"\nand went on");
  EXPECT_TRUE(history.steps.empty());
}

TEST_F(RunLogTest, KeepsALossThatIsNotANumber) {
  StepEvent event = step(1);
  event.loss = std::numeric_limits<double>::quiet_NaN();
  RunLog(file_).write(event);
  EXPECT_TRUE(std::isnan(read_run_log(file_).steps.at(0).loss));
}

TEST_F(RunLogTest, LeavesOutATornLastLine) {
  RunLog(file_).write(step(1));
  append_raw(R"({"event":"step","st)");
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_TRUE(read_run_log(file_).torn);
}

TEST_F(RunLogTest, CutsATornLastLineOffWhenReopened) {
  RunLog(file_).write(step(1));
  append_raw(R"({"event":"step","st)");
  {
    RunLog log(file_, 1);
    EXPECT_TRUE(log.repaired());
    log.write(step(2));
  }
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  EXPECT_FALSE(RunLog(file_, 2).repaired());
}

TEST_F(RunLogTest, ReadsBackWhenThingsHappened) {
  {
    RunLog log(file_);
    log.write(step(1));
    log.write(EvalEvent{1, "validation", 2.0});
  }
  const RunHistory history = read_run_log(file_);
  EXPECT_GT(history.steps.at(0).time, 1e9);
  EXPECT_GE(history.evals.at(0).time, history.steps.at(0).time);
}

TEST_F(RunLogTest, DropsTheStepsAfterTheOneResumedFrom) {
  {
    RunLog log(file_);
    for (int64_t number = 1; number <= 5; ++number) log.write(step(number));
    log.write(EvalEvent{5, "validation", 2.0});
    log.write(MessageEvent{3, "kept"});
  }
  RunLog(file_, 3).write(step(4));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(read_run_log(file_).evals.empty());
  EXPECT_EQ(read_run_log(file_).messages.size(), 1U);
}

TEST_F(RunLogTest, ANewLogReplacesAnOldOne) {
  RunLog(file_).write(step(1));
  RunLog(file_).write(step(9));
  EXPECT_THAT(steps(), ElementsAre(9));
}

TEST_F(RunLogTest, ResumingWithoutALogBeginsOne) {
  RunLog(file_, 3).write(step(4));
  EXPECT_THAT(steps(), ElementsAre(4));
}

TEST_F(RunLogTest, NamesFileAndLineOfADamagedLine) {
  RunLog(file_).write(step(1));
  append_raw("not json\n");
  append_raw("{}\n");
  EXPECT_THAT(read_error(),
              HasSubstr(file_.string() + ":2: this line is damaged: it is not JSON; remove it"));
}

TEST_F(RunLogTest, NamesTheFieldOfAWrongType) {
  append_raw("{\"event\":\"eval\",\"step\":\"two\",\"name\":\"v\",\"loss\":1}\n");
  EXPECT_THAT(read_error(), HasSubstr(":1: \"step\" must be an integer, is \"two\""));
}

TEST_F(RunLogTest, SaysThatTheDiskIsFull) {
  RunLog log("/dev/full");
  try {
    log.write(step(1));
    FAIL() << "the write succeeded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot write /dev/full: No space left on device"));
  }
}

// A limit on the size of files stands in for a disk that fills up in the middle of a line.
TEST_F(RunLogTest, TakesBackALineThatDidNotFit) {
  RunLog log(file_);
  log.write(step(1));
  const auto whole = fs::file_size(file_);
  {
    const tests::FileSizeLimit full_disk(whole + 20);
    EXPECT_THROW(log.write(step(2)), Error);
  }
  EXPECT_EQ(fs::file_size(file_), whole);
  log.write(step(2));
  EXPECT_THAT(steps(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace thinwire::events
