#include "thinwire/launch/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/events/run_log.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_parameters.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class Train : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }
  fs::path folder_;
};

TEST_F(Train, LearnsAndLeavesAWholeRunFolder) {
  const config::Recipe recipe = tiny_recipe(
      folder_, {"train.steps=60", "optim.lr=0.01", "eval.every=20", "log.tensorboard=true"});
  const TrainResult result = train(recipe, {});
  ASSERT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.summary.steps, 60);
  EXPECT_EQ(result.summary.tokens, 60 * 4 * 16);
  EXPECT_LT(result.summary.val_loss.at("validation"), 4.0) << "ln 258 = 5.55 is knowing nothing";
  EXPECT_TRUE(result.summary.val_loss.contains("other"));
  EXPECT_GT(result.summary.tokens_per_second, 0);
  EXPECT_EQ(result.summary.digest.size(), 16u);
  // Embedding and head 258 x 32; a block 4 x 32 x 32 + 3 x 32 x 64 + 2 norms; a last norm.
  EXPECT_EQ(result.summary.params_non_embedding, 2 * (4096 + 6144 + 64) + 32);
  EXPECT_EQ(result.summary.params, result.summary.params_non_embedding + 2 * 258 * 32);
  EXPECT_NEAR(result.summary.ratio_ring_sent, 1.0, 0.01);
  EXPECT_NEAR(result.summary.ratio_ring, 1.0, 0.01);
  EXPECT_NEAR(result.summary.ratio_report, 1.0, 0.01) << "2 workers send 2N bytes of bf16 each";
  EXPECT_NEAR(result.summary.bytes_sent_per_worker_step, 2.0 * double(result.summary.params), 64);
  EXPECT_GT(result.summary.seconds, 0);
  const double wire_s = result.summary.bytes_sent_per_worker_step * 8 / 10e6 + 2 * 0.02;
  EXPECT_NEAR(result.summary.seconds_over_links, result.summary.seconds + 60 * wire_s, 0.1);
  EXPECT_GT(result.summary.peak_memory_bytes, 1'000'000);
  EXPECT_NEAR(result.summary.train_loss, result.summary.val_loss.at("validation"), 1.0);

  const fs::path run = folder_ / "run";
  const events::RunHistory history = events::read_run_log(run / "events.jsonl");
  EXPECT_EQ(history.steps.size(), 60u);
  EXPECT_EQ(history.evals.size(), 6u);
  EXPECT_GT(history.steps.front().loss, history.steps.back().loss + 1);
  EXPECT_TRUE(fs::exists(run / "recipe.toml"));
  EXPECT_FALSE(fs::is_empty(run / "tensorboard"));
  EXPECT_EQ(
      checkpoint::CheckpointReader(*checkpoint::newest_checkpoint(run / "checkpoints")).meta().step,
      60u);
  EXPECT_EQ(events::read_summary(run / "summary.json").digest, result.summary.digest);
}

TEST_F(Train, SameRecipeSameBits) {
  const std::string first = train(tiny_recipe(folder_), {}).summary.digest;
  const std::string other_folder = "run.dir=" + (folder_ / "again").string();
  EXPECT_EQ(train(tiny_recipe(folder_, {other_folder}), {}).summary.digest, first);
  const std::string third = "run.dir=" + (folder_ / "seed").string();
  EXPECT_NE(train(tiny_recipe(folder_, {third, "run.seed=2"}), {}).summary.digest, first);
}

TEST_F(Train, SplittingTheBatchOverWorkersOrMicrobatchesKeepsTheLoss) {
  const auto loss = [&](const std::string& name, std::vector<std::string> overrides) {
    overrides.push_back("run.dir=" + (folder_ / name).string());
    overrides.push_back("allreduce.wire=fp32");
    return train(tiny_recipe(folder_, overrides), {}).summary.val_loss.at("validation");
  };
  const double one = loss("one", {"train.workers=1"});
  EXPECT_NEAR(loss("four", {"train.workers=4"}), one, 1e-4);
  EXPECT_NEAR(loss("three", {"train.workers=3"}), one, 1e-4) << "shares of 1, 1 and 2 rows";
  EXPECT_NEAR(loss("micro", {"train.workers=1", "train.microbatch=1"}), one, 1e-4);
  EXPECT_NEAR(loss("bf16", {"train.workers=1", "train.precision=bf16"}), one, 0.05);
}

TEST_F(Train, MicrobatchesChangeDistroByRoundingAlone) {
  const auto loss = [&](const std::string& name, std::vector<std::string> overrides) {
    overrides.push_back("run.dir=" + (folder_ / name).string());
    overrides.push_back("sync.method=distro");
    return train(tiny_recipe(folder_, overrides), {}).summary.val_loss.at("validation");
  };
  // One clipped gradient per step goes into the momentum, however many passes it took.
  const std::string micro = "train.microbatch=1", sgd = "distro.update=sgd";
  EXPECT_NEAR(loss("sgd_micro", {sgd, micro}), loss("sgd", {sgd}), 1e-4);
  EXPECT_NEAR(loss("sign_micro", {micro}), loss("sign", {}), 1e-2) << "a sign may flip near zero";
  EXPECT_GT(std::abs(loss("sgd_other", {sgd, "optim.clip=0.1"}) - loss("sgd_again", {sgd})), 1e-3)
      << "what the first comparison can see";
}

TEST_F(Train, FinishedRunIsNotTrainedAgain) {
  const std::string digest = train(tiny_recipe(folder_), {}).summary.digest;
  const TrainResult again = train(tiny_recipe(folder_), {});
  EXPECT_EQ(again.outcome, Outcome::kAlreadyFinished);
  EXPECT_EQ(again.summary.digest, digest);
  EXPECT_EQ(train(tiny_recipe(folder_), {.restart = true}).outcome, Outcome::kFinished);
}

TEST_F(Train, StopRequestEndsBeforeTheNextStepAndTheRunGoesOnLater) {
  const std::string whole =
      train(tiny_recipe(folder_, {"run.dir=" + (folder_ / "whole").string()}), {}).summary.digest;
  const std::atomic<bool> stop = true;
  const TrainResult stopped = train(tiny_recipe(folder_), {.stop = &stop});
  EXPECT_EQ(stopped.outcome, Outcome::kStopped);
  EXPECT_EQ(train(tiny_recipe(folder_), {}).summary.digest, whole);
}

TEST_F(Train, WhatIsComputedAgainMayChangeWithinARun) {
  const std::string whole =
      train(tiny_recipe(folder_, {"run.dir=" + (folder_ / "whole").string()}), {}).summary.digest;
  const std::atomic<bool> stop = true;
  train(tiny_recipe(folder_), {.stop = &stop});
  const config::Recipe again = tiny_recipe(folder_, {"model.recompute=block"});
  EXPECT_EQ(train(again, {}).summary.digest, whole);
}

TEST_F(Train, AnotherRecipeInTheSameFolderIsRefusedByName) {
  train(tiny_recipe(folder_), {});
  const std::string message =
      tests::error_of([&] { train(tiny_recipe(folder_, {"optim.lr=0.5"}), {}); });
  EXPECT_THAT(message, HasSubstr("optim.lr was 0.003, is 0.5"));
  EXPECT_THAT(message, HasSubstr("--restart"));
}

TEST(InitialParameters, AreGivenToEveryWorkerAndThenFreed) {
  const tensor::Layout layout({{"w", {20}, TensorRole::kMatrix, 0}});
  auto values = std::make_shared<tensor::Arena>(layout);
  const std::weak_ptr<tensor::Arena> alive = values;
  values->all()[12] = 6;
  const float* const memory = std::as_const(*values).all().data();
  train::InitialParameters initial(std::move(values), 2);
  const tensor::Arena first = initial.take();
  EXPECT_FALSE(alive.expired());
  const tensor::Arena second = initial.take();
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(first.all()[12], 6);
  EXPECT_NE(first.all().data(), memory);
  EXPECT_EQ(second.all()[12], 6);
  EXPECT_EQ(second.all().data(), memory);
}

TEST(InitialParameters, GiveFrozenWeightsThatAreChangedToEveryWorkerOnce) {
  auto values = std::make_shared<train::FrozenWeights>(
      std::vector<TensorSpec>{{"w", {20}, TensorRole::kMatrix, 0}}, WeightFormat::kF32, nullptr);
  const train::FrozenWeights* const memory = values.get();
  values->values.all()[12] = 6;
  train::InitialParameters initial(nullptr, 2, std::move(values));
  const auto first = initial.take_frozen(), second = initial.take_frozen();
  EXPECT_NE(first.get(), memory);
  EXPECT_EQ(second.get(), memory);
  EXPECT_EQ(std::as_const(first->values).all()[12], 6);
}

TEST_F(Train, FolderThatHoldsSomethingElseIsLeftAlone) {
  write_file(folder_ / "run" / "thesis.txt", "precious");
  const std::string message =
      tests::error_of([&] { train(tiny_recipe(folder_), {.restart = true}); });
  EXPECT_THAT(message, HasSubstr("not a run"));
  EXPECT_EQ(read_text_file(folder_ / "run" / "thesis.txt"), "precious");
}

TEST_F(Train, DivergenceNamesTheStepAndKeepsTheLastGoodCheckpoint) {
  const config::Recipe recipe =
      tiny_recipe(folder_, {"optim.lr=1e6", "schedule.warmup=0", "schedule.kind=constant",
                            "checkpoint.every=1", "train.steps=50", "optim.clip=0"});
  const std::string message = tests::error_of([&] { train(recipe, {}); });
  EXPECT_THAT(message, HasSubstr("step "));
  EXPECT_THAT(message, HasSubstr("lower optim.lr"));
  const auto newest = checkpoint::newest_checkpoint(folder_ / "run" / "checkpoints");
  ASSERT_TRUE(newest.has_value());
  const checkpoint::CheckpointReader checkpoint(*newest);
  const tensor::SafetensorsReader& weights = checkpoint.weights();
  for (const std::string& name : weights.names()) {
    for (const float value : weights.read_f32(name)) ASSERT_TRUE(std::isfinite(value)) << name;
  }
  EXPECT_FALSE(fs::exists(folder_ / "run" / "summary.json"));
}

TEST_F(Train, MoreThreadsThanCoresIsWrongUse) {
  const std::string message = tests::error_of([&] {
    train(tiny_recipe(folder_, {"train.threads=" + std::to_string(cores_here().affinity + 1)}), {});
  });
  EXPECT_THAT(message, HasSubstr("[train] threads"));
}

TEST_F(Train, AQuorumNeedsACoordinator) {
  const config::Recipe recipe = tiny_recipe(folder_, {"sync.quorum=0.6"});
  EXPECT_THAT(tests::error_of([&] { train(recipe, {}); }),
              HasSubstr("[sync] quorum must be 1 without a coordinator, got 0.6"));
  EXPECT_FALSE(fs::exists(recipe.run.dir));
}

TEST_F(Train, LateContributionsNeedACoordinator) {
  const config::Recipe recipe = tiny_recipe(folder_, {"sync.method=diloco", "sync.late=count"});
  EXPECT_THAT(tests::error_of([&] { train(recipe, {}); }),
              HasSubstr("[sync] late must be \"drop\" without a coordinator, got \"count\""));
  EXPECT_FALSE(fs::exists(recipe.run.dir));
}

TEST_F(Train, VocabularySmallerThanTheDataIsWrongUse) {
  const std::string message =
      tests::error_of([&] { train(tiny_recipe(folder_, {"model.vocab=100"}), {}); });
  EXPECT_THAT(message, HasSubstr("[model] vocab must be >= 258"));
}

TEST_F(Train, DamagedCheckpointIsNamedNotTrainedFrom) {
  train(tiny_recipe(folder_, {"checkpoint.every=6"}), {});
  fs::remove(folder_ / "run" / "summary.json");
  const fs::path weights =
      *checkpoint::newest_checkpoint(folder_ / "run" / "checkpoints") / "weights.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1);
  const std::string message = tests::error_of([&] { train(tiny_recipe(folder_), {}); });
  EXPECT_THAT(message, HasSubstr("weights.safetensors"));
}

TEST_F(Train, CheckpointOfAnotherRunIsRefused) {
  train(tiny_recipe(folder_), {});
  train(tiny_recipe(folder_, {"run.seed=2", "run.dir=" + (folder_ / "other").string()}), {});
  fs::remove(folder_ / "run" / "summary.json");
  fs::remove_all(folder_ / "run" / "checkpoints");
  fs::copy(folder_ / "other" / "checkpoints", folder_ / "run" / "checkpoints",
           fs::copy_options::recursive);
  const std::string message = tests::error_of([&] { train(tiny_recipe(folder_), {}); });
  EXPECT_THAT(message, HasSubstr("belongs to another run"));
}

// Like a folder that was made before the program had the field.
TEST_F(Train, AFieldMissingFromTheFoldersRecipeIsAtItsDefault) {
  const std::atomic<bool> stop = true;
  train(tiny_recipe(folder_), {.stop = &stop});
  std::string recipe = read_text_file(folder_ / "run" / "recipe.toml");
  const size_t field = recipe.find("look_ahead = ");
  ASSERT_NE(field, std::string::npos);
  recipe.erase(field, recipe.find('\n', field) + 1 - field);
  write_file(folder_ / "run" / "recipe.toml", recipe);
  EXPECT_EQ(train(tiny_recipe(folder_), {}).outcome, Outcome::kFinished);
}

TEST(RunIdentity, ListsOnlyWhatIsNotADefault) {
  const auto identity = [](const std::vector<std::string>& fields) {
    return checkpoint::run_identity(method::load_recipe({}, fields));
  };
  EXPECT_THAT(identity({"train.steps=77"}), HasSubstr("train.steps = 77\n"));
  EXPECT_THAT(identity({"train.steps=77"}), Not(HasSubstr("train.batch")));
  EXPECT_EQ(identity({"train.batch=16"}), identity({}));
  EXPECT_EQ(identity({"log.every=3", "links.delay_s=1"}), identity({}));
  EXPECT_EQ(identity({"data.validation_block=64"}), identity({}));  // once the default
}

TEST(RunIdentity, IsTheTextThatOlderSweepsNamedTheirFoldersBy) {
  const std::vector<std::string> numbers = {"optim.lr=1e-3", "adamw.beta1=0.9", "adamw.beta2=0.95",
                                            "schedule.warmup=0"};
  EXPECT_EQ(checkpoint::run_identity(method::load_recipe({}, numbers)),
            "run.name = \"\"\nrun.dir = \"\"\nmodel.recompute = \"\"\ntrain.engine = \"\"\n");
}

TEST_F(Train, FolderOfARunThatNeverBeganIsTaken) {
  write_file(folder_ / "run" / ".lock", "");
  EXPECT_EQ(train(tiny_recipe(folder_), {}).outcome, Outcome::kFinished);
}

TEST_F(Train, ShardsOfAnotherVocabularyAreRefused) {
  write_file(folder_ / "tokens" / "vocabulary.json",
             read_text_file(folder_ / "tokens" / "vocabulary.json") + " ");
  const std::string message = tests::error_of([&] { train(tiny_recipe(folder_), {}); });
  EXPECT_THAT(message, HasSubstr("vocabulary"));
}

TEST_F(Train, StopAtAStepWhoseCheckpointIsDueIsAnOrderlyEnd) {
  const events::Summary whole =
      train(tiny_recipe(folder_, {"run.dir=" + (folder_ / "whole").string()}), {}).summary;
  std::atomic<bool> stop = false;
  std::thread requester([&] {
    const fs::path first = folder_ / "run" / "checkpoints" / checkpoint::checkpoint_name(1);
    while (!fs::exists(first)) std::this_thread::yield();
    stop = true;
  });
  const TrainResult stopped =
      train(tiny_recipe(folder_, {"checkpoint.every=1", "checkpoint.keep=100"}), {.stop = &stop});
  requester.join();
  if (stopped.outcome == Outcome::kStopped) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / "checkpoints" /
                           checkpoint::checkpoint_name(static_cast<uint64_t>(stopped.step))));
  }
  const events::Summary resumed = train(tiny_recipe(folder_), {}).summary;
  EXPECT_EQ(resumed.digest, whole.digest);
  EXPECT_EQ(resumed.train_loss, whole.train_loss);
  EXPECT_EQ(resumed.train_loss_steps, 2) << "a tenth of 12 steps";
}

TEST_F(Train, StartsFromTheWeightsOfAnotherRun) {
  train(tiny_recipe(folder_, {"train.steps=60", "optim.lr=0.01"}), {});
  const std::string init = "train.init=" + (folder_ / "run").string();
  const std::string dir = "run.dir=" + (folder_ / "tuned").string();
  train(tiny_recipe(folder_, {init, dir}), {});
  const auto history = events::read_run_log(folder_ / "tuned" / "events.jsonl");
  EXPECT_LT(history.steps.front().loss, 4.0) << "it begins with what the other run knew";

  const std::string other = "run.dir=" + (folder_ / "other").string();
  EXPECT_THAT(tests::error_of([&] {
                train(tiny_recipe(folder_, {init, other, "model.layers=3", "model.heads=4"}), {});
              }),
              AllOf(HasSubstr("[train] init"), HasSubstr("layers = 2 (the recipe says 3)"),
                    HasSubstr("heads = 2 (the recipe says 4)"), Not(HasSubstr("hidden"))));
}

// Equal sizes do not make vocabularies equal.
TEST_F(Train, WeightsWhoseTokensStandForOtherTextAreRefused) {
  config::DataSection data;
  data.dir = (folder_ / "tokens").string();
  data.text = {(folder_ / "text.txt").string()};
  data.document = config::DocumentEnd::kLine;
  data.vocabulary_size = 285;
  data::prepare(data, {.force = true, .threads = 1});
  train(tiny_recipe(folder_, {"train.steps=1", "schedule.warmup=0"}), {});
  const fs::path vocabulary =
      folder_ / "run" / "checkpoints" / checkpoint::checkpoint_name(1) / "vocabulary.model";
  const std::string init = "train.init=" + (folder_ / "run").string();
  const std::string dir = "run.dir=" + (folder_ / "tuned").string();

  data.text = {(folder_ / "other.txt").string()};
  data::prepare(data, {.force = true, .threads = 1});
  EXPECT_THAT(tests::error_of([&] {
                train(tiny_recipe(folder_, {init, dir, "train.steps=1", "schedule.warmup=0"}), {});
              }),
              AllOf(HasSubstr("stand for different text"),
                    HasSubstr("vocabulary_model = \"" + vocabulary.string() + "\"")));
  data.vocabulary_model = vocabulary;
  data::prepare(data, {.force = true, .threads = 1});
  EXPECT_EQ(
      train(tiny_recipe(folder_, {init, dir, "train.steps=1", "schedule.warmup=0"}), {}).outcome,
      Outcome::kFinished);
}

}  // namespace
}  // namespace thinwire::launch
