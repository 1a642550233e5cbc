// Resuming a run: what may change meanwhile, what is refused, and how damage is handled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/errors.h"
#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/checkpoint/run_folder.h"
#include "thinwire/convert/load.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  TrainResult run(const std::vector<std::string>& overrides = {}) const {
    return train(tiny_recipe(folder_, overrides), {});
  }
  std::string refusal(const std::vector<std::string>& overrides = {}) const {
    return tests::error_of([&] { run(overrides); });
  }
  // Leaves a run of 12 steps as it was after 6 of them; returns the complete run's digest.
  std::string interrupt(std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.end(), {"checkpoint.every=3", "checkpoint.keep=100"});
    const std::string digest = run(overrides).summary.digest;
    fs::remove(run_dir() / "summary.json");
    for (const uint64_t later : {9, 12}) fs::remove_all(checkpoint(later));
    return digest;
  }
  fs::path run_dir() const { return folder_ / "run"; }
  fs::path checkpoint(uint64_t step) const {
    return run_dir() / "checkpoints" / checkpoint::checkpoint_name(step);
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> texts;
    for (const auto& event : events::read_run_log(run_dir() / "events.jsonl").messages) {
      texts.push_back(event.text);
    }
    return texts;
  }
  // Turns a checkpoint into an old one that does not record its data.
  void forget_data(uint64_t step) const {
    checkpoint::CheckpointMeta meta;
    {
      const checkpoint::CheckpointReader reader(checkpoint(step));
      meta = reader.meta();
      meta.data.clear();
      checkpoint::CheckpointWriter writer(folder_ / "older");
      for (const auto& [name, file] : reader.files()) writer.add_file(checkpoint(step) / name);
      writer.commit(meta, 0);
    }
    fs::remove_all(checkpoint(step));
    fs::rename(folder_ / "older", checkpoint(step));
  }
  void prepare_other_text() const {
    config::DataSection data = tiny_recipe(folder_).data;
    write_file(folder_ / "text.txt", read_text_file(folder_ / "text.txt") + "one line more\n");
    data.text = {(folder_ / "text.txt").string()};
    data.document = config::DocumentEnd::kLine;
    data.vocabulary = config::VocabularyKind::kByte;
    data.validation_fraction = 0.05;
    data.validation_block = 4;
    data::prepare(data, {.force = true, .threads = 1});
  }

  fs::path folder_;
};

TEST_F(Resume, OtherTextUnderTheSameVocabularyIsRefused) {
  interrupt();
  prepare_other_text();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("belongs to another run: the set 'train' in"),
                               HasSubstr("set data.dir to the data of the run"),
                               HasSubstr("choose another run.dir"), HasSubstr("--restart")));
}

TEST_F(Resume, DataThatWasMovedIsTheSameData) {
  const std::string whole = interrupt();
  fs::rename(folder_ / "tokens", folder_ / "moved");
  EXPECT_EQ(run({"data.dir=" + (folder_ / "moved").string()}).summary.digest, whole);
}

TEST_F(Resume, ValidationSetsMayComeAndGo) {
  const std::string whole = interrupt();
  const fs::path record = folder_ / "tokens" / "prepare.json";
  std::string text = read_text_file(record);
  const size_t name = text.rfind("\"other\"");
  text.replace(name, 7, "\"new\"");
  write_file(record, text);
  fs::rename(folder_ / "tokens/validation/other", folder_ / "tokens/validation/new");
  EXPECT_EQ(run().summary.digest, whole);
  EXPECT_THAT(messages(), Contains(HasSubstr("no longer has a validation set 'other'")));
  EXPECT_THAT(messages(), Contains(HasSubstr("the validation set 'new' is new in")));
}

TEST_F(Resume, ACheckpointWithoutDigestsGoesOnWithANotice) {
  const std::string whole = interrupt();
  forget_data(6);
  fs::copy(folder_ / "tokens", folder_ / "copy", fs::copy_options::recursive);
  EXPECT_THAT(refusal({"data.dir=" + (folder_ / "copy").string()}), HasSubstr("data.dir was"))
      << "where nothing else tells data apart, their path has to";
  EXPECT_EQ(run().summary.digest, whole);
  EXPECT_THAT(messages(), Contains(HasSubstr("cannot be compared")));
  EXPECT_FALSE(checkpoint::CheckpointReader(checkpoint(12)).meta().data.empty());
}

TEST_F(Resume, AFieldOfAnotherRunIsNamedWithBothValuesAndTheWayOut) {
  interrupt();
  EXPECT_THAT(refusal({"optim.lr=0.5"}),
              AllOf(HasSubstr("optim.lr was 0.003, is 0.5"), HasSubstr("set it back"),
                    HasSubstr("choose another run.dir"), HasSubstr("--restart")));
}

TEST_F(Resume, WhatSaysHowARunIsWatchedMayChange) {
  const std::string whole = interrupt();
  EXPECT_EQ(run({"run.name=other", "eval.every=5", "log.every=7", "checkpoint.keep=1",
                 "sync.timeout_s=99", "links.delay_s=1"})
                .summary.digest,
            whole);
  for (const std::string& text : messages()) EXPECT_THAT(text, Not(HasSubstr(" was ")));
}

// The collector compares the replicas' digests, so in a run that finishes all replicas agreed.
TEST_F(Resume, MicrobatchAndThreadsMayChangeAndSaySo) {
  interrupt();
  const std::string threads = available_cores() > 1 ? "2" : "1";
  EXPECT_EQ(run({"train.microbatch=1", "train.threads=" + threads, "eval.rows=3"}).outcome,
            Outcome::kFinished);
  EXPECT_THAT(messages(), Contains(AllOf(HasSubstr("train.microbatch was 0, is 1"),
                                         HasSubstr("up to rounding"))));
  EXPECT_THAT(messages(), Contains(HasSubstr("eval.rows was 0, is 3")));
  if (threads == "1") return;
  EXPECT_THAT(messages(), Contains(HasSubstr("train.threads was 1, is 2")));
}

TEST_F(Resume, AFinishedRunGoesOnForMoreSteps) {
  const std::vector<std::string> longer = {"schedule.kind=constant", "train.steps=15"};
  const std::string planned =
      run({longer[0], longer[1], "run.dir=" + (folder_ / "planned").string()}).summary.digest;
  run({"schedule.kind=constant"});
  const TrainResult result = run(longer);
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.summary.steps, 15);
  EXPECT_EQ(result.summary.digest, planned) << "with a constant rate nothing tells them apart";
  EXPECT_THAT(messages(), Contains(AllOf(HasSubstr("train.steps was 12, is 15"),
                                         HasSubstr("learning rate follows"))));
  EXPECT_EQ(run(longer).outcome, Outcome::kAlreadyFinished);
}

TEST_F(Resume, FewerStepsThanAreDoneAreRefused) {
  run();
  EXPECT_THAT(refusal({"train.steps=5"}), HasSubstr("has already done 12 steps"));
  EXPECT_TRUE(fs::exists(run_dir() / "summary.json"));
}

TEST_F(Resume, AFinishedRunWithoutCheckpointsIsNotBegunAnewByMoreSteps) {
  run();
  fs::remove_all(run_dir() / "checkpoints");
  EXPECT_THAT(refusal({"train.steps=15"}), HasSubstr("no checkpoint from which to continue"));
  EXPECT_TRUE(fs::exists(run_dir() / "summary.json"));
}

TEST_F(Resume, ADamagedCheckpointNamesTheSoundOneAndTheCommand) {
  const std::string whole = interrupt();
  const fs::path weights = checkpoint(6) / "weights.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1);
  const std::string message = refusal();
  EXPECT_THAT(message,
              AllOf(HasSubstr(weights.string() + " was truncated"),
                    HasSubstr("the newest one that can be read is " + checkpoint(3).string())));
  EXPECT_THAT(tests::error_of([&] { convert::load_model(run_dir()); }),
              AllOf(HasSubstr(weights.string() + " was truncated"),
                    HasSubstr(checkpoint(3).string() + "; name it instead of the run")));
  const std::string command = "rm -r '" + checkpoint(6).string() + "'";
  ASSERT_THAT(message, HasSubstr(command));
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(run().summary.digest, whole);
}

TEST_F(Resume, WhereEveryCheckpointIsDamagedOnlyARestartHelps) {
  interrupt();
  for (const uint64_t step : {3, 6}) fs::remove(checkpoint(step) / "weights.safetensors");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is missing"), HasSubstr("--restart starts over")));
}

// Each start fails for a different reason, with a different recipe; the last one corrects the
// command.
TEST_F(Resume, AFailedStartLeavesTheFolderFree) {
  const std::string no_data = "data.dir=" + (folder_ / "nowhere").string();
  EXPECT_THAT(refusal({no_data, "optim.lr=0.1"}), Not(HasSubstr("another run")));
  EXPECT_THAT(refusal({"train.init=" + (folder_ / "nowhere").string()}),
              AllOf(HasSubstr("[train] init: "),
                    HasSubstr("nowhere holds no model: there is no such folder; expected")));
  EXPECT_THAT(refusal({"train.sequence=100000"}), HasSubstr("train.sequence"));
  const fs::path shard = folder_ / "tokens/train/00000.tws";
  const std::string tokens = read_text_file(shard);
  write_file(shard, tokens.substr(0, tokens.size() - 2));
  EXPECT_THAT(refusal({"optim.lr=0.2"}), HasSubstr("truncated"));
  write_file(shard, tokens);
  EXPECT_EQ(run().outcome, Outcome::kFinished);
}

// The state that running out of memory, or a SIGKILL, leaves behind.
TEST_F(Resume, AStartThatDiedBeforeItsFirstStepLeavesTheFolderFree) {
  const config::Recipe first = tiny_recipe(folder_, {"optim.lr=0.1"});
  checkpoint::RunFolder(first, false).begin(first);
  events::RunLog log(run_dir() / "events.jsonl");
  EXPECT_NO_THROW(checkpoint::RunFolder(tiny_recipe(folder_), false));
  events::StepEvent step;
  step.step = 1;
  log.write(step);
  EXPECT_THAT(tests::error_of([&] { checkpoint::RunFolder(tiny_recipe(folder_), false); }),
              HasSubstr("optim.lr was 0.1, is 0.003"));
}

// A member's command has no --restart.
TEST_F(Resume, OnlyCommandsThatCanStartOverAdviseIt) {
  ASSERT_EQ(run().outcome, Outcome::kFinished);
  for (const char* change : {"optim.lr=0.1", "train.steps=13"}) {
    fs::remove_all(run_dir() / "checkpoints");
    const config::Recipe other = tiny_recipe(folder_, {change});
    const auto refusal_of = [&](checkpoint::Claim claim) {
      return tests::error_of([&] { checkpoint::RunFolder(other, false, claim); });
    };
    EXPECT_THAT(refusal_of(checkpoint::Claim::kOwn), HasSubstr("pass --restart"));
    EXPECT_THAT(refusal_of(checkpoint::Claim::kCallers), HasSubstr("choose another run.dir"));
    EXPECT_THAT(refusal_of(checkpoint::Claim::kCallers), Not(HasSubstr("--restart")));
  }
}

TEST_F(Resume, AFailedRestartLeavesTheRunAsItWas) {
  const std::string digest = run().summary.digest;
  const config::Recipe wrong = tiny_recipe(folder_, {"train.init=" + folder_.string()});
  EXPECT_NE(tests::error_of([&] { train(wrong, {.restart = true}); }), tests::kNoError);
  const TrainResult again = run();
  EXPECT_EQ(again.outcome, Outcome::kAlreadyFinished);
  EXPECT_EQ(again.summary.digest, digest);
}

TEST(ResumeRules, TheDocumentationNamesEveryField) {
  const std::string page = read_text_file(tests::source_file("docs/recipes.md"));
  for (const checkpoint::ResumeRule& rule : checkpoint::resume_rules()) {
    const std::string table(rule.field.substr(0, rule.field.find(".*")));
    const std::string name = table == rule.field ? table : "[" + table + "]";
    EXPECT_THAT(page, HasSubstr("`" + name + "`"));
  }
}

}  // namespace
}  // namespace thinwire::launch
