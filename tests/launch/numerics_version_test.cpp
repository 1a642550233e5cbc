// Runs resumed from checkpoints of programs with another numerics version.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class NumericsVersion : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }
  TrainResult run() {
    std::vector<std::string> fields = {"checkpoint.every=5", "checkpoint.keep=9"};
    fields.insert(fields.end(), method_.begin(), method_.end());
    return train(tiny_recipe(folder_, fields), {});
  }
  // Takes a finished run back to its checkpoint after step 5, and gives that the given version.
  void turn_back(int version) {
    const fs::path run = folder_ / "run", dir = run / "checkpoints";
    const fs::path checkpoint = dir / checkpoint::checkpoint_name(5), copy = folder_ / "copy";
    fs::remove(run / "summary.json");
    {
      const checkpoint::CheckpointReader reader(checkpoint);
      checkpoint::CheckpointWriter writer(copy);
      for (const auto& [name, file] : reader.files()) writer.add_file(checkpoint / name);
      checkpoint::CheckpointMeta meta = reader.meta();
      meta.numerics_version = version;
      const auto vocabulary = data::Vocabulary::load((folder_ / "tokens").string());
      meta.run = checkpoint::new_run_id(
          {method::load_recipe(run / "recipe.toml", {}), vocabulary->digest(), meta.data}, version);
      id_ = meta.run;
      writer.commit(meta, 0);
    }
    fs::remove_all(dir);
    fs::create_directories(dir);
    fs::rename(copy, checkpoint);
  }
  std::string log() const { return read_text_file(folder_ / "run" / "events.jsonl"); }

  fs::path folder_;
  std::vector<std::string> method_ = {"sync.method=distro"};
  uint64_t id_ = 0;
};

TEST_F(NumericsVersion, ARunOfAnEarlierOneGoesOnWithANotice) {
  const std::string digest = run().summary.digest;
  EXPECT_THAT(log(), Not(HasSubstr("numerics version")));
  turn_back(1);
  EXPECT_EQ(run().summary.digest, digest);
  EXPECT_THAT(log(),
              HasSubstr(fmt::format("numerics version 1, now {}):", checkpoint::kNumericsVersion)));

  const checkpoint::CheckpointReader last(
      *checkpoint::newest_checkpoint(folder_ / "run" / "checkpoints"));
  EXPECT_EQ(last.meta().numerics_version, checkpoint::kNumericsVersion);
  EXPECT_EQ(last.meta().run, id_) << "a run keeps its identity";
  fs::remove(folder_ / "run" / "summary.json");
  EXPECT_EQ(run().summary.digest, digest);
}

TEST_F(NumericsVersion, ANoticeNamesAnOptimizerThatTookOtherSteps) {
  method_ = {"optim.method=fira"};
  run();
  turn_back(4);
  run();
  EXPECT_THAT(log(),
              HasSubstr("in which fira took other steps (thinwire/optimizers/fira/fira.md)"));
}

// Its recipe has the old default.
TEST_F(NumericsVersion, AFiraRunOfAnEarlierOneIsToldThatScaleWasLess) {
  method_ = {"optim.method=fira", "fira.scale=0.25"};
  run();
  turn_back(4);
  method_ = {"optim.method=fira"};
  try {
    run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("fira.scale was 0.25, is 1"));
  }
}

TEST_F(NumericsVersion, ACheckpointOfALaterOneIsRefused) {
  run();
  turn_back(checkpoint::kNumericsVersion + 1);
  try {
    run();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("written by a later program"));
  }
}

TEST_F(NumericsVersion, NamesNewRunsApart) {
  const config::Recipe recipe = tiny_recipe(folder_);
  const checkpoint::DataDigests data = {{"train", 3}};
  EXPECT_NE(checkpoint::new_run_id({recipe, 1, data}, 1),
            checkpoint::new_run_id({recipe, 1, data}, 2));
  EXPECT_NE(checkpoint::new_run_id({recipe, 1, data}, 2),
            checkpoint::new_run_id({recipe, 2, data}, 2));
}

}  // namespace
}  // namespace thinwire::launch
