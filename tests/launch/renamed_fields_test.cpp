// Runs whose recipes were written when fields had other names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using checkpoint::checkpoint_name;
using checkpoint::CheckpointReader;
using checkpoint::CheckpointWriter;
using checkpoint::kRecipeFile;
using checkpoint::run_identity;
using testing::HasSubstr;
using testing::Not;

class RenamedFields : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  TrainResult run(std::vector<std::string> more) {
    more.insert(more.end(), {"optim.method=muon", "checkpoint.every=5", "checkpoint.keep=9"});
    return train(tiny_recipe(folder_, std::move(more)), {});
  }

  // The recipe with the optimizers' fields in their old places, and the launcher's old name.
  static std::string in_old_names(std::string text) {
    const std::string launcher = "launcher = \"threads\"";
    text.replace(text.find(launcher), launcher.size(), "engine = \"local\"");
    for (const char* table : {"adamw", "muon"}) {
      const size_t begin = text.find(std::string("[") + table + "]");
      text.erase(begin, text.find("\n\n", begin) + 2 - begin);
    }
    const std::string head = "[optim]\n";
    text.insert(text.find(head) + head.size(),
                "beta1 = 0.8\nbeta2 = 0.95\neps = 1e-08\nmuon_lr = 0.0\nmuon_momentum = 0.9\n");
    return text;
  }

  // Takes a finished run back to its checkpoint after step 5, with the old names everywhere.
  void turn_back() const {
    const fs::path run = folder_ / "run", dir = run / "checkpoints";
    const fs::path checkpoint = dir / checkpoint_name(5), copy = folder_ / "copy";
    {
      const CheckpointReader reader(checkpoint);
      CheckpointWriter writer(copy);
      for (const auto& [name, file] : reader.files()) {
        if (name != kRecipeFile) writer.add_file(checkpoint / name);
      }
      writer.add_text(kRecipeFile, in_old_names(reader.recipe_text()));
      writer.commit(reader.meta(), 0);
    }
    fs::remove_all(dir);
    fs::create_directories(dir);
    fs::rename(copy, checkpoint);
    fs::remove(run / "summary.json");
    write_file(run / kRecipeFile, in_old_names(read_text_file(run / kRecipeFile)));
  }

  fs::path folder_;
};

TEST_F(RenamedFields, AnOldRunGoesOnByOldAndByNewNames) {
  for (const bool by_old : {false, true}) {
    fs::remove_all(folder_ / "run");
    const std::string digest = run({"adamw.beta1=0.8", "muon.momentum=0.9"}).summary.digest;
    turn_back();
    const TrainResult resumed = by_old ? run({"optim.beta1=0.8", "optim.muon_momentum=0.9"})
                                       : run({"adamw.beta1=0.8", "muon.momentum=0.9"});
    EXPECT_EQ(resumed.summary.digest, digest);
    const std::string log = read_text_file(folder_ / "run" / "events.jsonl");
    EXPECT_THAT(log, HasSubstr("after step 5"));
    EXPECT_THAT(log, Not(HasSubstr("is now called")));
    const std::string recipe = read_text_file(folder_ / "run" / kRecipeFile);
    EXPECT_THAT(recipe, HasSubstr("[adamw]\nbeta1 = 0.8\n"));
    const size_t optim = recipe.find("[optim]\n") + 1;
    const std::string table = recipe.substr(optim, recipe.find("\n[", optim) - optim);
    EXPECT_THAT(table, HasSubstr("method = "));
    EXPECT_THAT(table, Not(HasSubstr("muon_momentum")));
  }
}

TEST_F(RenamedFields, AnotherValueIsRefusedByItsNewName) {
  run({"adamw.beta1=0.8", "muon.momentum=0.9"});
  turn_back();
  try {
    run({"adamw.beta1=0.8", "muon.momentum=0.7"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("muon.momentum was 0.9, is 0.7"));
  }
}

TEST_F(RenamedFields, ARunIsTheSameByWhateverNames) {
  EXPECT_EQ(run_identity(tiny_recipe(folder_, {"optim.beta1=0.8"})),
            run_identity(tiny_recipe(folder_, {"adamw.beta1=0.8"})));
}

}  // namespace
}  // namespace thinwire::launch
