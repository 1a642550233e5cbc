#include "thinwire/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/events/run_log.h"

namespace thinwire::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

fs::path fresh_folder(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  fs::path folder = fs::path(testing::TempDir()) / "compare" / test->name() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

FinishedRun example(const std::string& method) {
  FinishedRun run;
  run.folder = "runs/" + method;
  events::Summary& summary = run.summary;
  summary.name = "quickstart";
  summary.method = method;
  summary.workers = 4;
  summary.params = 3'000'000;
  summary.train_loss = 4.4;
  summary.train_loss_steps = 50;
  summary.val_loss = {{"kjv", 5.123}, {"validation", 4.567}};
  summary.link_down_bit_s = 100e6;
  summary.link_up_bit_s = 10e6;
  summary.tokens_per_second = 15'300;
  if (method == "allreduce") {
    summary.bytes_sent_per_worker_step = 18e6;
    summary.bytes_received_per_worker_step = 18e6;
    summary.ratio_ring = summary.ratio_ring_sent = 0.5;
    summary.ratio_report = 1.0 / 3;
    summary.seconds = 75;
    summary.seconds_over_links = 3725;
  } else {
    summary.bytes_sent_per_worker_step = 9000;
    summary.bytes_received_per_worker_step = 27'000;
    summary.ratio_ring = 333.3;
    summary.ratio_ring_sent = 1000;
    summary.ratio_report = 666.7;
    summary.seconds = 80;
    summary.seconds_over_links = 95;
  }
  return run;
}

TEST(Compare, TableIsReadableInATerminal) {
  const std::vector<FinishedRun> runs = {example("allreduce"), example("distro")};
  EXPECT_EQ("\n" + compare_table(runs).terminal(), R"(
           train  validation    kjv     sent  received  ring ÷    ring ÷  report's    tokens        time      time over
method      loss        loss   loss   a step    a step    sent  received     ratio  a second        here  100/10 Mbit/s
---------  -----  ----------  -----  -------  --------  ------  --------  --------  --------  ----------  -------------
allreduce  4.400       4.567  5.123  18.0 MB   18.0 MB    0.50      0.50      0.33    15.3 k  1 min 15 s     1 h 02 min
distro     4.400       4.567  5.123  9.00 kB   27.0 kB    1000       333       667    15.3 k  1 min 20 s     1 min 35 s
)");
}

TEST(Compare, ScoresOfTasksAreColumnsAfterTheLosses) {
  std::vector<FinishedRun> runs = {example("allreduce"), example("distro")};
  runs[1].summary.scores = {{"arc_easy.acc", 0.25}, {"arc_easy.acc_norm", 0.5}};
  const Table table = compare_table(runs);
  EXPECT_EQ(table.columns[4].title, "arc_easy\nacc");
  EXPECT_EQ(table.rows[1][4], "0.250");
  EXPECT_EQ(table.rows[1][5], "0.500");
  EXPECT_EQ(table.rows[0].size(), table.columns.size());
  const Table exact = exact_compare_table(runs);
  EXPECT_EQ(exact.columns[6].title, "scores.arc_easy.acc");
  EXPECT_EQ(exact.rows[1][6], "0.25");
}

TEST(Compare, LegendFitsATerminal) {
  const std::vector<FinishedRun> runs = {example("distro")};
  std::istringstream legend(result_legend(runs));
  int lines = 0;
  for (std::string line; std::getline(legend, line); ++lines) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_EQ(lines, 3);
}

TEST(Compare, LegendSaysWhatTheTrainingLossIs) {
  std::vector<FinishedRun> runs = {example("allreduce"), example("distro")};
  EXPECT_THAT(result_legend(runs), StartsWith("train loss: mean of the last 50 steps.\n"));
  runs[1].summary.train_loss_steps = 12;
  EXPECT_THAT(result_legend(runs),
              StartsWith("train loss: mean of the last tenth of the steps, at most 50; in"));
}

TEST(Compare, ARunInTwoStagesIsNamedByBoth) {
  std::vector<FinishedRun> runs = {example("diloco"), example("diloco")};
  runs[1].summary.within = "allreduce";
  const Table table = compare_table(runs);
  EXPECT_EQ(table.columns[0].title, "method") << "the methods tell them apart";
  EXPECT_EQ(table.rows[0][0], "diloco");
  EXPECT_EQ(table.rows[1][0], "diloco (within: allreduce)");
  EXPECT_THAT(exact_compare_table(runs).csv(), HasSubstr(",allreduce,"));
}

TEST(Compare, RunsOfOneMethodAreToldApartByNameElseByFolder) {
  std::vector<FinishedRun> runs = {example("distro"), example("distro")};
  runs[0].folder = "runs/a/";
  runs[1].folder = "runs/b";
  EXPECT_EQ(compare_table(runs).rows[0][0], "a");
  EXPECT_EQ(compare_table(runs).rows[1][0], "b");
  runs[1].summary.name = "other";
  EXPECT_EQ(compare_table(runs).rows[0][0], "quickstart");
  EXPECT_EQ(compare_table(runs).rows[1][0], "other");
}

TEST(Compare, ASetThatARunLacksIsADash) {
  std::vector<FinishedRun> runs = {example("allreduce"), example("distro")};
  runs[1].summary.val_loss.erase("kjv");
  EXPECT_THAT(validation_sets(runs), ElementsAre("validation", "kjv"));
  EXPECT_EQ(compare_table(runs).rows[1][3], "–");
}

TEST(Compare, DifferentLinksAreNotCalledByOneName) {
  std::vector<FinishedRun> runs = {example("allreduce"), example("distro")};
  runs[1].summary.link_up_bit_s = 1e9;
  EXPECT_THAT(result_legend(runs), HasSubstr("each recipe's links"));
}

TEST(Compare, CsvHasFullPrecisionUnderTheNamesOfTheSummary) {
  const std::vector<FinishedRun> runs = {example("allreduce")};
  const std::string csv = exact_compare_table(runs).csv();
  EXPECT_THAT(csv, HasSubstr("folder,name,method,train_loss,val_loss.validation,val_loss.kjv,"));
  EXPECT_THAT(csv, HasSubstr(",0.3333333333333333,15300,75,3725,"));
}

std::string load_error(const fs::path& folder) {
  try {
    load_finished_run(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Compare, SaysWhyAFolderIsNoFinishedRun) {
  const fs::path folder = fresh_folder("run");
  EXPECT_EQ(load_error(folder), folder.string() + " has no summary.json: it is not a run folder");
  write_file(folder / "recipe.toml", "");
  EXPECT_EQ(load_error(folder), folder.string() + " has no summary.json: its run is not finished");
  EXPECT_THAT(load_error(folder / "none"), HasSubstr("there is no such folder"));
}

TEST(Compare, RunsThatAreNotFinishedAreLeftOutAndSaidSo) {
  const fs::path root = fresh_folder("runs");
  const std::string done = root / "done", open = root / "open", fresh = root / "fresh",
                    damaged = root / "damaged", other = root / "other", file = root / "loss.png";
  events::write_summary(fs::path(done) / "summary.json", example("distro").summary);
  write_file(fs::path(open) / "recipe.toml", "[train]\nsteps = 500\n");
  {
    events::RunLog log(fs::path(open) / "events.jsonl");
    events::StepEvent event;
    event.step = 120;
    log.write(event);
  }
  write_file(fs::path(fresh) / "recipe.toml", "[no.such]\nfield = 1\n");
  write_file(fs::path(damaged) / "summary.json", "{");
  fs::create_directories(other);
  write_file(file, "");
  const std::vector<std::string> paths = {done, open, fresh, damaged, other, file};
  const FoundRuns found = find_runs(paths);
  ASSERT_EQ(found.finished.size(), 1U);
  EXPECT_EQ(found.finished[0].folder, done);
  EXPECT_THAT(found.left_out,
              ElementsAre(open + ": at step 120 of 500, not finished", fresh + ": not finished",
                          HasSubstr(damaged + "/summary.json is damaged: it is not JSON"),
                          other + ": not a run folder", file + ": not a run folder"));
  const std::vector<std::string> nothing = {(root / "none").string()};
  EXPECT_THROW(find_runs(nothing), Error);
}

fs::path folder_with_log() {
  const fs::path folder = fresh_folder("run");
  events::RunLog log(folder / "events.jsonl");
  for (int step = 1; step <= 200; ++step) {
    events::StepEvent event;
    event.step = step;
    event.loss = step % 2 == 0 ? 3 : 5;
    event.tokens = 10;
    event.bytes_sent = step % 4 == 0 ? 100 : 0;
    log.write(event);
  }
  return folder;
}

TEST(Compare, LossCurveIsSmoothed) {
  const events::PlotSeries curve = loss_curve(folder_with_log(), "a", CurveAxis::kSteps);
  ASSERT_EQ(curve.x.size(), 200U);
  EXPECT_EQ(curve.x.front(), 1);
  EXPECT_NEAR(curve.y[100], 4, 0.3);
}

TEST(Compare, LossCurveOverWhatHasAddedUp) {
  const fs::path folder = folder_with_log();
  EXPECT_EQ(loss_curve(folder, "a", CurveAxis::kTokens).x.back(), 2000);
  const events::PlotSeries bytes = loss_curve(folder, "a", CurveAxis::kBytes);
  EXPECT_EQ(bytes.x[2], 0);
  EXPECT_EQ(bytes.x[3], 100);
  EXPECT_EQ(bytes.x.back(), 5000);
  EXPECT_TRUE(loss_plot({bytes}, CurveAxis::kBytes).log_x);
}

}  // namespace
}  // namespace thinwire::report
