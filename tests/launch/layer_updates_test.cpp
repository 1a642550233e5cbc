// Runs whose weights are updated during the backward pass.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/launch/copied_run.h"
#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

class LayerUpdates : public testing::Test {
 protected:
  LayerUpdates() : folder_(test_folder(tests::memory_folder())) { prepare_tiny_corpus(folder_); }
  ~LayerUpdates() override { fs::remove_all(folder_); }

  TrainResult run(std::vector<std::string> fields) {
    const std::string dir = fmt::format("run.dir={}/{}", folder_.string(), ++runs_);
    fields.insert(fields.begin(), {"eval.rows=8", dir});
    return train(tiny_recipe(folder_, fields), {});
  }

  // Both ends of train.update come to the same weights.
  void expect_same_bits(std::vector<std::string> fields) {
    const std::string step = run(fields).summary.digest;
    fields.emplace_back("train.update=layer");
    EXPECT_EQ(run(fields).summary.digest, step) << fmt::format("{}", fmt::join(fields, " "));
  }

  fs::path folder_;
  int runs_ = 0;
};

TEST_F(LayerUpdates, HaveTheBitsOfUpdatesAtTheEndOfTheStep) {
  for (const char* workers : {"train.workers=1", "train.workers=4"}) {
    expect_same_bits({workers, "optim.clip=0"});
    expect_same_bits({workers, "optim.clip_by=previous", "train.precision=bf16"});
    expect_same_bits({workers, "optim.clip_by=tensor", "model.tied=true", "optim.method=muon"});
    expect_same_bits({workers, "optim.clip=0", "sync.method=diloco", "diloco.sync_every=5",
                      "train.precision=bf16", "model.recompute=block"});
  }
}

TEST_F(LayerUpdates, ARunMayChangeBetweenBothEnds) {
  const std::vector<std::string> fields = {"optim.clip=0", "checkpoint.every=1",
                                           "checkpoint.keep=100"};
  const TrainResult whole = run(fields);
  const fs::path copy = folder_ / "copy";
  copy_run(folder_ / "1", copy, 5);
  std::vector<std::string> layer = fields;
  layer.insert(layer.end(), {"run.dir=" + copy.string(), "eval.rows=8", "train.update=layer"});
  EXPECT_EQ(train(tiny_recipe(folder_, layer), {}).summary.digest, whole.summary.digest);
}

// The vocabulary's 258 rows are cut at multiples of 128.
TEST_F(LayerUpdates, InSlabsOfTheVocabularyLearnTheSame) {
  const std::vector<std::vector<std::string>> variants = {
      {"train.workers=4", "optim.clip_by=previous"},
      {"train.workers=1", "optim.clip=0", "train.precision=bf16"},
      {"train.workers=2", "optim.clip=0", "sync.method=diloco", "diloco.sync_every=5"}};
  for (std::vector<std::string> fields : variants) {
    fields.emplace_back("train.update=layer");
    const auto loss = [&] { return run(fields).summary.val_loss.at("validation"); };
    const double whole = loss();
    fields.emplace_back("model.vocab_slabs=3");
    EXPECT_NEAR(loss(), whole, 1e-4 * whole) << fmt::format("{}", fmt::join(fields, " "));
  }
}

// The smallest of everything, of a single worker: resumed after every step around two renewals.
TEST_F(LayerUpdates, WithEverythingInFewBitsAResumedRunHasTheSameBits) {
  const std::vector<std::string> thin = {"train.workers=1",       "train.update=layer",
                                         "optim.clip=0",          "train.precision=bf16",
                                         "train.weights=bf16",    "optim.state=8bit",
                                         "model.recompute=block", "model.block_inputs=bf16",
                                         "checkpoint.every=1",    "checkpoint.keep=100"};
  const std::vector<std::vector<std::string>> optimizers = {
      {"optim.method=galore", "galore.rank=8", "galore.refresh=4", "optim.gradients=projected",
       "optim.bases=8bit", "model.vocab_slabs=3"},
      {"optim.method=apollo", "apollo.rank=1", "apollo.scaling=tensor", "apollo.refresh=4",
       "optim.bases=8bit", "model.vocab_slabs=3"},
      {"optim.method=scale"}};
  for (const std::vector<std::string>& optimizer : optimizers) {
    std::vector<std::string> fields = thin;
    fields.insert(fields.end(), optimizer.begin(), optimizer.end());
    const TrainResult whole = run(fields);
    EXPECT_LT(whole.summary.val_loss.at("validation"), 5.6);
    const fs::path from = folder_ / std::to_string(runs_);
    for (const int64_t step : {1, 3, 4, 5, 7, 8}) {
      const fs::path copy = folder_ / fmt::format("{}-{}", runs_, step);
      copy_run(from, copy, step);
      std::vector<std::string> again = fields;
      again.insert(again.end(), {"run.dir=" + copy.string(), "eval.rows=8"});
      EXPECT_EQ(train(tiny_recipe(folder_, again), {}).summary.digest, whole.summary.digest)
          << optimizer[0] << " resumed after step " << step;
    }
  }
}

TEST_F(LayerUpdates, AGradientThatIsNotFiniteEndsTheRunWithTheLastCheckpointWhole) {
  const std::vector<std::string> fields = {
      "optim.clip=0",   "optim.lr=1e6",       "schedule.warmup=0", "schedule.kind=constant",
      "train.steps=50", "checkpoint.every=1", "train.update=layer"};
  EXPECT_THAT(tests::error_of([&] { run(fields); }), HasSubstr("lower optim.lr"));
}

}  // namespace
}  // namespace thinwire::launch
