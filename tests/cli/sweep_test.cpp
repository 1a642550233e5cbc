#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "tests/cli/program_run.h"
#include "thinwire/base/error.h"
#include "thinwire/events/run_log.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Stands in for thinwire: records its call, then does what the file `behaviour` says.
constexpr std::string_view kFakeProgram = R"(#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
for word in "$@"; do case $word in run.dir=*) dir=${word#run.dir=};; esac; done
mkdir -p "$dir"
. "$here/behaviour"
cp "$here/summary.json" "$dir/summary.json"
cp "$here/events.jsonl" "$dir/events.jsonl"
)";

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / "sweep" / test->name();
    fs::remove_all(folder_);
    write_file(program(), kFakeProgram);
    fs::permissions(program(), fs::perms::owner_all);
    write_file(folder_ / "recipe.toml", "[train]\nworkers = 2\n");
    behave("");
    events::Summary summary;
    summary.method = "allreduce";
    summary.train_loss = 3.5;
    summary.val_loss["validation"] = 3.75;
    events::write_summary(folder_ / "summary.json", summary);
    events::RunLog log(folder_ / "events.jsonl");
    for (int step = 1; step <= 3; ++step) log.write(step_event(step));
  }

  static events::StepEvent step_event(int64_t step) {
    events::StepEvent event;
    event.step = step;
    event.loss = 4.0 / static_cast<double>(step);
    return event;
  }
  std::string program() const { return (folder_ / "fake").string(); }
  void behave(std::string_view script) const { write_file(folder_ / "behaviour", script); }
  SweepPlan plan(
      const std::string& more = "seeds = [1, 2]\n[grid]\noptim.lr = [1e-3, 3e-3]") const {
    const std::string recipe = fmt::format("recipe = \"{}/recipe.toml\"\n", folder_.string());
    return plan_sweep(parse_grid(recipe + more, "grid.toml"), folder_ / "out", program());
  }
  std::vector<RunOutcome> run(const SweepPlan& plan, int jobs = 2) const {
    std::vector<SweepRun> runs;
    for (const PlannedRun& planned : plan.runs) runs.push_back(planned.run);
    return run_sweep(runs, jobs, interrupts_, {});
  }
  std::vector<RunState> states(const SweepPlan& plan) const {
    std::vector<RunState> result;
    for (const RunOutcome& outcome : run(plan)) result.push_back(outcome.state);
    return result;
  }
  int64_t calls() const {
    if (!fs::exists(folder_ / "calls")) return 0;
    const std::string text = read_text_file(folder_ / "calls");
    return std::count(text.begin(), text.end(), '\n');
  }

  fs::path folder_;
  std::atomic<int> interrupts_ = 0;
};

constexpr RunState kDone = RunState::kDone;
constexpr RunState kFailed = RunState::kFailed;
constexpr RunState kStopped = RunState::kStopped;

TEST_F(SweepTest, TrainsEveryPointWithEverySeed) {
  const SweepPlan sweep = plan();
  EXPECT_EQ(sweep.threads_per_run, 2);
  EXPECT_THAT(states(sweep), ElementsAre(kDone, kDone, kDone, kDone));
  EXPECT_EQ(calls(), 4);
  EXPECT_THAT(read_text_file(folder_ / "calls"),
              HasSubstr(fmt::format("train {}/recipe.toml optim.lr=0.003 run.seed=2 run.name=",
                                    folder_.string())));
}

TEST_F(SweepTest, EveryCommandHasARecipeThatIsAccepted) {
  for (const PlannedRun& planned :
       plan("[grid]\nsync.method = [\"distro\"]\noptim.lr = [1e-8]").runs) {
    const std::vector<std::string>& command = planned.run.command;
    const std::vector<std::string> overrides(command.begin() + 3, command.end());
    const config::Recipe recipe = method::load_recipe(command[2], overrides);
    EXPECT_EQ(recipe.run.dir, planned.run.folder.string());
    EXPECT_EQ(recipe.sync.method, "distro");
    EXPECT_EQ(recipe.optim.lr, 1e-8);
  }
}

TEST_F(SweepTest, FieldsByOldNamesAreTheSameRunsAndAreNamedOnce) {
  const SweepPlan old = plan("[grid]\noptim.beta1 = [0.7, 0.8]\noptim.lr = [1e-8]");
  const SweepPlan now = plan("[grid]\nadamw.beta1 = [0.7, 0.8]\noptim.lr = [1e-8]");
  EXPECT_THAT(old.notices, ElementsAre("optim.beta1 is now called adamw.beta1"));
  EXPECT_THAT(now.notices, testing::IsEmpty());
  ASSERT_EQ(old.runs.size(), now.runs.size());
  for (size_t i = 0; i < old.runs.size(); ++i) {
    EXPECT_EQ(old.runs[i].run.folder, now.runs[i].run.folder);
  }
}

TEST_F(SweepTest, DoesNotRepeatWhatIsFinished) {
  const SweepPlan sweep = plan();
  run(sweep);
  fs::remove(sweep.runs[2].run.folder / "summary.json");
  EXPECT_THAT(states(sweep), ElementsAre(kDone, kDone, kDone, kDone));
  EXPECT_EQ(calls(), 5);
}

TEST_F(SweepTest, AChangedRecipeIsAnotherRun) {
  run(plan());
  write_file(folder_ / "recipe.toml", "[train]\nworkers = 2\nsteps = 77\n");
  EXPECT_THAT(states(plan()), ElementsAre(kDone, kDone, kDone, kDone));
  EXPECT_EQ(calls(), 8);
}

TEST_F(SweepTest, FieldsThatLeaveTheResultAloneDoNotMakeAnotherRun) {
  run(plan());
  write_file(folder_ / "recipe.toml", "[train]\nworkers = 2\n[checkpoint]\nevery = 7\n");
  run(plan());
  EXPECT_EQ(calls(), 4);
}

TEST_F(SweepTest, AFailureDoesNotStopTheOthersAndIsTriedAgain) {
  behave("case $dir in *lr-0.001*seed-2*) echo; echo 'the disk is full' >&2; exit 1;; esac");
  const SweepPlan sweep = plan();
  const auto outcomes = run(sweep);
  EXPECT_EQ(outcomes[0].state, kDone);
  EXPECT_EQ(outcomes[1].state, kFailed);
  EXPECT_THAT(outcomes[1].reason, HasSubstr("exit status 1: the disk is full (all it printed: "));
  EXPECT_EQ(outcomes[3].state, kDone);
  behave("");
  EXPECT_THAT(states(sweep), ElementsAre(kDone, kDone, kDone, kDone));
  EXPECT_EQ(calls(), 5);
}

TEST_F(SweepTest, ARunThatEndsWithoutASummaryFailed) {
  behave("exit 0");
  EXPECT_THAT(run(plan())[0].reason, HasSubstr("it ended without a summary.json (all"));
}

TEST_F(SweepTest, AProgramThatCannotBeRunIsReported) {
  SweepPlan sweep = plan();
  sweep.runs[0].run.command[0] = "/no/such/program";
  EXPECT_THAT(run(sweep)[0].reason, HasSubstr("cannot run /no/such/program"));
}

// Each run interrupts the sweep, as Ctrl-C would, and waits until the signal reaches it.
TEST_F(SweepTest, AnInterruptReachesTheRunningOnesAndStartsNoMore) {
  behave(
      "trap 'echo heard >> \"$here/heard\"; exit 1' INT; touch \"$here/ready\"\n"
      "while :; do sleep 0.01; done");
  const SweepPlan sweep = plan();
  std::thread interrupter([&] {
    while (!fs::exists(folder_ / "ready")) std::this_thread::yield();
    ++interrupts_;
  });
  const auto outcomes = run(sweep, 1);
  interrupter.join();
  EXPECT_THAT(read_text_file(folder_ / "heard"), "heard\n");
  EXPECT_EQ(calls(), 1);
  for (const RunOutcome& outcome : outcomes) EXPECT_EQ(outcome.state, kStopped);
  behave("");
  interrupts_ = 0;
  EXPECT_THAT(states(sweep), ElementsAre(kDone, kDone, kDone, kDone));
  EXPECT_EQ(calls(), 5);
}

TEST_F(SweepTest, TwoPointsThatAreTheSameRunAreRefused) {
  EXPECT_THROW(plan("[[points]]\noptim.lr = 1e-3\n[[points]]\noptim.lr = 0.001"), UsageError);
}

TEST_F(SweepTest, ABadPointIsNamedWithItsGridFile) {
  try {
    plan("seeds = [7]\n[grid]\ntrain.batch = [4, 1]");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("grid.toml: point batch=1 seed=7: "));
  }
}

TEST_F(SweepTest, AnUnknownFieldIsRefusedBeforeAnythingRuns) {
  EXPECT_THROW(plan("[grid]\noptim.learning = [1]"), UsageError);
  EXPECT_EQ(calls(), 0);
}

TEST_F(SweepTest, AFolderOfSomethingElseIsRefusedAndLeftAsItIs) {
  write_file(folder_ / "grid.toml", fmt::format("recipe = \"{}/recipe.toml\"", folder_.string()));
  const fs::path data = folder_ / "data";
  write_file(data / "prepare.json", "{}");
  const cli::ProgramRun sweep = cli::run_thinwire(
      {"sweep", (folder_ / "grid.toml").string(), "--out", data.string(), "--program", program()});
  EXPECT_EQ(sweep.status, 2);
  EXPECT_THAT(sweep.err,
              HasSubstr("data is not a sweep's folder: it holds prepare.json but no sweep's"));
  EXPECT_EQ(std::distance(fs::directory_iterator(data), {}), 1);
  EXPECT_EQ(calls(), 0);
  EXPECT_THROW(report::require_sweep_folder(data / "prepare.json"), UsageError);
  write_file(folder_ / "recipe.toml", "[train]\nsteps = 3\n");
  EXPECT_THAT(
      cli::run_thinwire({"sweep", (folder_ / "recipe.toml").string(), "--out", data.string()}).err,
      HasSubstr("recipe.toml is a recipe"))
      << "the grid is read first";
}

TEST_F(SweepTest, AFolderOfASweepServesAtAnyStage) {
  const fs::path out = folder_ / "out";
  EXPECT_NO_THROW(report::require_sweep_folder(out));
  fs::create_directories(out);
  EXPECT_NO_THROW(report::require_sweep_folder(out));
  const SweepPlan sweep = plan();
  const auto outcomes = run(sweep);
  EXPECT_NO_THROW(report::require_sweep_folder(out)) << "killed before it wrote results";
  write_results(sweep, outcomes, collect_results(sweep, outcomes), out);
  for (const PlannedRun& planned : sweep.runs) fs::remove(planned.run.log());
  EXPECT_NO_THROW(report::require_sweep_folder(out));
}

TEST_F(SweepTest, ResultsHaveARowARunAndTheSpreadOverSeeds) {
  behave(
      "case $dir in *lr-0.001*seed-2*) exit 1;; esac\n"
      "case $dir in *seed-2*) sed -i 's/\"train_loss\": 3.5/\"train_loss\": 3.7/' "
      "\"$here/summary.json\";; esac");
  const SweepPlan sweep = plan();
  const auto outcomes = run(sweep, 1);
  const SweepResults results = collect_results(sweep, outcomes);
  write_results(sweep, outcomes, results, folder_ / "out");
  EXPECT_EQ(results.done, 3U);
  EXPECT_EQ(results.failed, 1U);
  const std::string csv = read_text_file(folder_ / "out/results.csv");
  EXPECT_THAT(csv, HasSubstr("optim.lr,seed,state,folder,method,train_loss,val_loss.validation,"));
  EXPECT_THAT(csv, HasSubstr("\n0.001,2,failed,"));
  EXPECT_THAT(csv, HasSubstr("\n0.003,2,done,"));
  const std::string markdown = read_text_file(folder_ / "out/results.md");
  EXPECT_THAT(markdown, HasSubstr("3 of 4 runs done, 1 failed."));
  EXPECT_THAT(markdown, HasSubstr("| 0.001 | 1 | 3.500 | 3.750 |"));
  EXPECT_THAT(markdown, HasSubstr("| 0.003 | 2 | 3.600 ± 0.141 | 3.750 ± 0.000 |"));
  EXPECT_THAT(markdown, HasSubstr("- lr=0.001 seed=2: exit status 1"));
  EXPECT_EQ(fs::exists(folder_ / "out/curves.png"), events::have_gnuplot());
}

TEST_F(SweepTest, ResultsOfNothingAreStillWritten) {
  behave("exit 1");
  const SweepPlan sweep = plan();
  const auto outcomes = run(sweep);
  write_results(sweep, outcomes, collect_results(sweep, outcomes), folder_ / "out");
  EXPECT_THAT(read_text_file(folder_ / "out/results.md"), HasSubstr("0 of 4 runs done, 4 failed."));
  EXPECT_THAT(read_text_file(folder_ / "out/results.md"), Not(HasSubstr("curves.png")));
}

}  // namespace
}  // namespace thinwire::report
