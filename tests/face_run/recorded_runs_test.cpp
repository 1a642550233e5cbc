// What runs leave behind, read from a program: checkpoints, the log, the summary, scores; and what
// recipes may say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/checkpoints.h"
#include "thinwire/config/check.h"
#include "thinwire/evaluation.h"
#include "thinwire/exporting.h"
#include "thinwire/finished_runs.h"
#include "thinwire/importing.h"
#include "thinwire/recipe_fields.h"
#include "thinwire/run_history.h"
#include "thinwire/trained_model.h"
#include "thinwire/training.h"

namespace thinwire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A run of 20 steps over a small text.
class RecordedRun : public testing::Test {
 protected:
  void SetUp() override {
    prepare_tiny_corpus(folder_);
    const config::Recipe recipe = tiny_recipe(
        folder_, {"train.steps=20", "log.every=1", "eval.every=10", "checkpoint.every=10"});
    write_file(folder_ / "recipe.toml", config::print_recipe(recipe));
    result_ = train_model(Recipe(folder_ / "recipe.toml"));
  }
  fs::path run() const { return folder_ / "run"; }

  const fs::path folder_ = test_folder();
  TrainingResult result_;
};

TEST_F(RecordedRun, HasCheckpointsThatAreChecked) {
  const std::vector<fs::path> all = list_checkpoints(run());
  ASSERT_THAT(all, SizeIs(2));
  const CheckpointFacts first = read_checkpoint(all[0]), last = read_checkpoint(all[1]);
  EXPECT_EQ(first.step, 10u);
  EXPECT_EQ(last.step, 20u);
  EXPECT_EQ(last.tokens, 2 * first.tokens);
  EXPECT_NE(first.digest, last.digest);
  EXPECT_EQ(last.method, "allreduce");
  EXPECT_EQ(last.workers, 2);
  const fs::path altered = folder_ / "altered";
  fs::copy(all[0], altered);
  write_file(altered / "recipe.toml", "");
  EXPECT_THAT(tests::error_of([&] { (void)read_checkpoint(altered); }), HasSubstr("recipe.toml"));
  EXPECT_THAT(list_checkpoints(folder_), SizeIs(0));
}

TEST_F(RecordedRun, HasALogOfItsSteps) {
  const RunHistory history = read_run_history(run());
  ASSERT_THAT(history.steps, SizeIs(20));
  EXPECT_EQ(history.steps.back().step, 20);
  ASSERT_FALSE(history.evaluations.empty());
  EXPECT_EQ(history.evaluations.back().loss, result_.losses.at("validation"));
  const LossCurve curve = loss_curve(run(), CurveAxis::kTokens);
  ASSERT_EQ(curve.at.size(), curve.losses.size());
  EXPECT_GT(curve.losses.front(), curve.losses.back());
  EXPECT_EQ(curve.at.back(), 20 * static_cast<double>(history.steps.back().tokens));
  EXPECT_THAT(tests::error_of([&] { (void)read_run_history(folder_); }), HasSubstr("events.jsonl"));
}

TEST_F(RecordedRun, IsFoundAmongOthers) {
  fs::create_directories(folder_ / "other");
  const FoundRuns found = find_runs({run(), folder_ / "other"});
  ASSERT_THAT(found.finished, SizeIs(1));
  EXPECT_THAT(found.left_out, ElementsAre(HasSubstr("other")));
  const FinishedRun& one = found.finished.front();
  EXPECT_EQ(one.folder, run());
  EXPECT_EQ(one.steps, 20);
  EXPECT_EQ(one.digest, result_.digest);
  EXPECT_EQ(one.losses, result_.losses);
  EXPECT_EQ(one.bytes_sent_per_step, result_.bytes_sent_per_step);
}

TEST_F(RecordedRun, IsScoredOnTasksAndTexts) {
  write_file(folder_ / "pets.jsonl",
             "{\"q\":\"a\",\"right\":0}\n{\"q\":\"b\",\"right\":1}\n{\"q\":\"c\",\"right\":0}\n");
  write_file(folder_ / "pets.toml",
             "[[source]]\nfile = \"pets.jsonl\"\ncontexts = [\"{q}\"]\n"
             "continuations = [\" cat\", \" dog\"]\nlabels = [\"0\", \"1\"]\nanswer = \"{right}\"\n"
             "metrics = [\"acc\"]\n");
  write_file(folder_ / "text.txt", "a line of text");
  std::vector<std::string> items, done;
  double share = 0;
  EvaluationOptions options;
  options.data = folder_;
  options.texts = {(folder_ / "text.txt").string()};
  options.on_item = [&](std::string_view line) { items.emplace_back(line); };
  options.on_task = [&](const TaskResult& task) { done.push_back(task.task); };
  options.on_progress = [&](const std::string&, double now) { share = now; };
  const std::vector<TaskResult> results =
      evaluate_model(run(), {(folder_ / "pets.toml").string(), "perplexity"}, options);
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].items, 3);
  ASSERT_THAT(results[0].metrics, SizeIs(1));
  EXPECT_EQ(results[0].metrics[0].name, "acc");
  EXPECT_TRUE(results[0].metrics[0].standard_error.has_value());
  EXPECT_THAT(done, ElementsAre(results[0].task, "perplexity"));
  EXPECT_THAT(items, SizeIs(4));
  EXPECT_GT(share, 0);

  const double nats = -TrainedModel(run()).log_likelihood("a line of text");
  const auto& texts = results[1].metrics;
  const auto bits = std::ranges::find(texts, "bits_per_byte", &TaskMetric::name);
  ASSERT_NE(bits, texts.end());
  EXPECT_NEAR(bits->value, nats / 14 / std::log(2), 1e-9);
  EXPECT_FALSE(bits->standard_error.has_value());

  EXPECT_THAT(tests::error_of([&] { (void)evaluate_model(run(), {"perplexity"}); }),
              HasSubstr("names the file or folder"));
  EXPECT_THAT(evaluation_tasks(), testing::Contains("piqa"));
}

TEST_F(RecordedRun, ComesBackFromAFolderOfOtherPrograms) {
  export_model(run(), folder_ / "exported");
  size_t calls = 0;
  ImportOptions options;
  options.on_progress = [&](size_t, size_t) { ++calls; };
  import_model(folder_ / "exported", folder_ / "imported", options);
  EXPECT_GT(calls, 0u);
  const std::string text = "a text";
  EXPECT_EQ(TrainedModel(folder_ / "imported").log_likelihood(text),
            TrainedModel(run()).log_likelihood(text));
}

TEST(RecipeFields, SayWhatRecipesMayHave) {
  const std::vector<RecipeField> fields = recipe_fields();
  const Recipe usual({});
  for (const RecipeField& field : fields) {
    EXPECT_FALSE(field.sentence.empty()) << field.name;
    EXPECT_NO_THROW((void)usual.get(field.key()));
  }
  const auto field = [&](const std::string& table, const std::string& name) {
    return *std::ranges::find_if(
        fields, [&](const RecipeField& one) { return one.table == table && one.name == name; });
  };
  EXPECT_EQ(field("train", "steps").unit, "steps");
  EXPECT_EQ(field("sync", "method").choices, method_names());
  EXPECT_THAT(field("adapter", "kind").choices, testing::Contains("lora"));
  EXPECT_EQ(field("adapter", "kind").value, "\"none\"");
}

}  // namespace
}  // namespace thinwire
