// Runs on pairs of answers: by several methods, optimizers and adapters, interrupted, packed, and
// what they keep of the model that they began with.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/launch/hosted_case.h"
#include "tests/launch/method_variants.h"
#include "tests/launch/pairs_run.h"
#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"
#include "thinwire/train/reference.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

std::vector<std::string> pair_fields(const fs::path& folder, const std::string& name,
                                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"run.dir=" + (folder / name).string(),
                                  "train.init=" + (folder / "base" / "run").string(),
                                  "data.records=preferences",
                                  "train.sequence=48",
                                  "checkpoint.every=5",
                                  "checkpoint.keep=100",
                                  "eval.every=6"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Removes what a run did after `step` steps, its last checkpoints and summary.
void cut(const fs::path& run, const std::vector<uint64_t>& later) {
  fs::remove(run / "summary.json");
  for (const uint64_t step : later) {
    fs::remove_all(run / "checkpoints" / checkpoint::checkpoint_name(step));
  }
}

std::vector<Variant> chosen_variants() {
  std::vector<Variant> variants =
      variants_named({"allreduce", "distro", "distro_adamw_overlap", "diloco_eager",
                      "diloco_within_distro", "sparseloco", "allreduce_layer", "diloco_absent"});
  const auto add = [&](const char* name, std::vector<std::string> fields) {
    Variant variant = variants.front();
    variant.name = name;
    variant.overrides.insert(variant.overrides.end(), fields.begin(), fields.end());
    variants.push_back(variant);
  };
  add("muon", {"optim.method=muon"});
  add("galore", {"optim.method=galore"});
  add("lora", {"adapter.kind=lora", "adapter.rank=4"});
  add("passes", {"train.microbatch=1"});
  add("packed", {"train.packing=true", "train.sequence=90"});
  add("ipo", {"preference.loss=ipo", "preference.beta=0.5"});
  return variants;
}

class PreferenceRuns : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_pairs(folder_, 20);
  }
  TrainResult run(const std::string& name) const {
    return train(variant_recipe(GetParam(), folder_, pair_fields(folder_, name), 2), {});
  }

  fs::path folder_;
};

TEST_P(PreferenceRuns, ResumeBitForBit) {
  const TrainResult whole = run("whole");
  EXPECT_EQ(whole.outcome, Outcome::kFinished);
  fs::copy(folder_ / "whole", folder_ / "part", fs::copy_options::recursive);
  cut(folder_ / "part", {10, 12});
  const TrainResult resumed = run("part");
  EXPECT_EQ(resumed.summary.digest, whole.summary.digest);
  EXPECT_EQ(resumed.summary.val_loss, whole.summary.val_loss);
}

INSTANTIATE_TEST_SUITE_P(Variants, PreferenceRuns, testing::ValuesIn(chosen_variants()),
                         [](const auto& test) { return test.param.name; });

class Preferences : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_pairs(folder_, 20);
  }
  TrainResult run(const std::string& name, const std::vector<std::string>& more = {}) const {
    return train(tiny_recipe(folder_, pair_fields(folder_, name, more)), {});
  }
  events::RunHistory log(const std::string& name) const {
    return events::read_run_log(folder_ / name / "events.jsonl");
  }

  fs::path folder_;
};

TEST_F(Preferences, AreLearnt) {
  run("run", {"train.steps=40", "train.batch=10", "optim.lr=0.01", "eval.every=20"});
  const events::RunHistory history = log("run");
  const events::StepEvent& first = history.steps.front();
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-5) << "at first nothing is preferred";
  EXPECT_NEAR(first.rewards->margin, 0, 1e-5);
  const events::StepEvent& last = history.steps.back();
  EXPECT_EQ(last.rewards->accuracy, 1);
  EXPECT_GT(last.rewards->margin, 0.5);
  EXPECT_NEAR(last.rewards->margin, last.rewards->chosen - last.rewards->rejected, 1e-9);
  EXPECT_LT(last.loss, 0.6);
  const auto score = [&](const std::string& name) {
    for (const events::EvalEvent& event : history.evals) {
      if (event.step == 40 && event.name == name) return event.loss;
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_EQ(score("same.accuracy"), 1);
  EXPECT_NEAR(score("same.margin"), score("same.chosen") - score("same.rejected"), 1e-9);
  EXPECT_LT(score("same"), 0.6);
}

TEST_F(Preferences, HowRowsAreDividedMakesNoDifferenceButRounding) {
  const std::vector<std::string> exact = {"allreduce.wire=fp32", "train.batch=5"};
  const auto loss = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.end(), exact.begin(), exact.end());
    return run(name, more).summary.val_loss.at("same");
  };
  const double one = loss("one", {"train.workers=1"});
  EXPECT_NEAR(loss("two", {"train.workers=2"}), one, 1e-5);
  EXPECT_NEAR(loss("passes", {"train.workers=1", "train.microbatch=2"}), one, 1e-5);
}

TEST_F(Preferences, TheReferenceIsComputedOnce) {
  const TrainResult whole = run("whole");
  const fs::path file = folder_ / "whole" / "reference" / "train.pairs";
  const std::string bytes = read_text_file(file);
  EXPECT_EQ(bytes.size(), 40 + 20 * 16u) << "all 20 pairs, in 48 rows of 12 steps";
  fs::copy(folder_ / "whole", folder_ / "part", fs::copy_options::recursive);
  cut(folder_ / "part", {10, 12});
  fs::remove_all(folder_ / "base" / "run");
  EXPECT_EQ(run("part").summary.digest, whole.summary.digest)
      << "a resumed run reads it, and needs the model at the start no more";
  EXPECT_EQ(read_text_file(folder_ / "part" / "reference" / "train.pairs"), bytes);
}

TEST_F(Preferences, WhatIsMissingOfTheReferenceIsComputedAgain) {
  const TrainResult whole = run("whole", {"train.batch=2", "train.steps=6"});
  const fs::path run_folder = folder_ / "part";
  const fs::path file = run_folder / "reference" / "train.pairs";
  fs::copy(folder_ / "whole", run_folder, fs::copy_options::recursive);
  EXPECT_EQ(read_text_file(file).size(), 40 + 12 * 16u) << "of 6 steps of 2 pairs";
  const auto resumed = [&] {
    cut(run_folder, {6});
    return run("part", {"train.batch=2", "train.steps=6"}).summary.digest;
  };
  std::string bytes = read_text_file(file);
  bytes[20] ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(resumed(), whole.summary.digest) << "a damaged file";
  fs::remove_all(run_folder / "reference");
  EXPECT_EQ(resumed(), whole.summary.digest) << "no file";
  run("part", {"train.batch=2", "train.steps=14"});
  EXPECT_EQ(read_text_file(file).size(), 40 + 20 * 16u) << "a longer run";
}

TEST_F(Preferences, AResumedRunNeedsTheWeightsThatItBeganWith) {
  run("run", {"train.batch=2", "train.steps=6"});
  train(tiny_recipe(folder_ / "base", {"train.steps=5"}), {});
  EXPECT_THAT(tests::error_of([&] {
                run("run", {"train.batch=2", "train.steps=14"});
              }),
              HasSubstr("no longer holds the weights that the run began with"));
}

TEST_F(Preferences, DataOfAnotherKindIsRefused) {
  EXPECT_THAT(tests::error_of([&] { run("run", {"data.records=prompts"}); }),
              HasSubstr("holds pairs of answers (records = \"preferences\")"));
  EXPECT_THAT(
      tests::error_of([&] { run("run", {"data.dir=" + (folder_ / "base" / "tokens").string()}); }),
      HasSubstr("holds no pairs of answers"));
}

TEST_F(Preferences, ContradictionsAreRefusedByName) {
  EXPECT_THAT(tests::error_of([&] { run("run", {"train.init="}); }),
              HasSubstr("[data] records = \"preferences\" needs [train] init"));
  EXPECT_THAT(tests::error_of([&] {
                run("run", {"preference.loss=ipo", "preference.label_smoothing=0.1"});
              }),
              HasSubstr("label_smoothing = 0.1 needs loss = \"sigmoid\""));
}

}  // namespace
}  // namespace thinwire::launch
