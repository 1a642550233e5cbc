// Tasks that a run's evaluations score (eval.tasks).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/threads.h"
#include "thinwire/convert/load.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/eval/task.h"
#include "thinwire/events/run_log.h"
#include "thinwire/launch/train.h"
#include "thinwire/model/registry.h"

namespace thinwire::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunTasks : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
    std::string records;
    for (const char* word : {"wires", "carry", "small", "far", "thin"}) {
      records += fmt::format(R"({{"a": "{}", "b": "xq zzk"}})", word) + "\n";
    }
    write_file(folder_ / "words.jsonl", records);
    write_file(folder_ / "words.toml",
               "[[source]]\nfile = \"words.jsonl\"\ncontexts = [\"thin\"]\n"
               "continuations = [\"{a}\", \"{b}\"]\nlabels = [\"1\", \"2\"]\nanswer = \"1\"\n");
  }

  config::Recipe recipe(std::vector<std::string> more) {
    more.insert(more.begin(), {"eval.every=6", "eval.tasks=" + (folder_ / "words.toml").string(),
                               "eval.data=" + folder_.string()});
    return tiny_recipe(folder_, more);
  }
  // The steps of the recorded scores of a metric.
  std::vector<int64_t> recorded(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const auto& event : events::read_run_log(folder_ / "run" / "events.jsonl").evals) {
      if (event.score && event.name == name) steps.push_back(event.step);
    }
    return steps;
  }
  // What `thinwire eval` would say of the finished run.
  double score(const std::string& metric) const {
    const convert::LoadedModel loaded = convert::load_model(folder_ / "run");
    ThreadPool threads(1);
    const auto scorer =
        model::make_scorer({loaded.model, *loaded.params, threads, loaded.sequence});
    const eval::TaskItems task =
        eval::read_items(eval::find_task((folder_ / "words.toml").string()), folder_);
    eval::Prompter prompter(*loaded.vocabulary, loaded.begin, loaded.sequence);
    const auto scores = eval::score_items(eval::encode_items(task, prompter), *scorer);
    for (const eval::MetricSum& sum : eval::item_metrics(task, scores)) {
      if (sum.name == metric) return sum.value();
    }
    return -1;
  }

  fs::path folder_;
};

TEST_F(RunTasks, WorkersTogetherRecordWhatEvalSaysOfTheirModel) {
  const TrainResult result = train(recipe({"train.workers=3", "train.batch=6"}), {});
  EXPECT_THAT(recorded("words.acc"), ElementsAre(6, 12));
  EXPECT_EQ(result.summary.scores.size(), 2u);
  EXPECT_EQ(result.summary.scores.at("words.acc"), score("acc"));
  EXPECT_EQ(result.summary.scores.at("words.acc_norm"), score("acc_norm"));
}

TEST_F(RunTasks, DoNotChangeTheRun) {
  const std::string without = train(tiny_recipe(folder_), {}).summary.digest;
  EXPECT_EQ(train(recipe({"run.dir=" + (folder_ / "other").string()}), {}).summary.digest, without);
}

TEST_F(RunTasks, AResumedRunScoresEachStepOnce) {
  train(recipe({"train.workers=3", "train.batch=6"}), {});
  train(recipe({"train.workers=3", "train.batch=6", "train.steps=18"}), {});
  EXPECT_THAT(recorded("words.acc"), ElementsAre(6, 12, 18));
}

TEST_F(RunTasks, WhatIsWrongIsSaidBeforeTraining) {
  const auto error = [&](const std::string& field) {
    return tests::error_of([&] { train(recipe({field}), {}); });
  };
  EXPECT_THAT(error("eval.tasks=arc_esay"), HasSubstr("did you mean arc_easy?"));
  EXPECT_THAT(error("eval.data=" + (folder_ / "none").string()), HasSubstr("there is no folder"));
  EXPECT_THAT(tests::error_of([&] { recipe({"eval.data="}); }),
              HasSubstr("[eval] tasks needs data"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "events.jsonl"));
}

TEST_F(RunTasks, ATaskThatGeneratesTextIsRefused) {
  write_file(folder_ / "words.jsonl", "{\"a\": \"1. join()\"}\n");
  write_file(folder_ / "words.toml",
             "[[source]]\nfile = \"words.jsonl\"\ncontexts = [\"thin\"]\nplan = \"{a}\"\n"
             "metrics = [\"plan_graph\"]\n");
  EXPECT_THAT(tests::error_of([&] { train(recipe({}), {}); }), HasSubstr("which generates text"));
}

}  // namespace
}  // namespace thinwire::launch
