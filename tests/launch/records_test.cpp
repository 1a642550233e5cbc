// Runs on prompts with answers, of which only the answers are learnt: by several methods and
// optimizers, interrupted, and packed.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "tests/launch/method_variants.h"
#include "tests/launch/records_run.h"
#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

std::vector<Variant> chosen_variants() {
  std::vector<Variant> variants =
      variants_named({"allreduce", "distro", "distro_adamw_overlap", "distro_local_steps",
                      "diloco_eager", "diloco_within_distro", "sparseloco", "streaming_eager",
                      "allreduce_layer", "diloco_absent"});
  const auto add = [&](const char* optimizer) {
    Variant variant = variants.front();
    variant.name = optimizer;
    variant.overrides.push_back(std::string("optim.method=") + optimizer);
    variants.push_back(variant);
  };
  for (const char* optimizer : {"muon", "galore", "apollo"}) add(optimizer);
  return variants;
}

class RecordRuns : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_records(folder_, 40);
  }
  TrainResult run(const std::string& name) const {
    return train(variant_recipe(GetParam(), folder_,
                                {"run.dir=" + (folder_ / name).string(), "train.sequence=48",
                                 "train.packing=true", "train.separate_documents=true",
                                 "checkpoint.every=5", "checkpoint.keep=100", "eval.every=6"},
                                2),
                 {});
  }

  fs::path folder_;
};

TEST_P(RecordRuns, ResumeBitForBit) {
  const TrainResult whole = run("whole");
  EXPECT_EQ(whole.outcome, Outcome::kFinished);
  fs::copy(folder_ / "whole", folder_ / "part", fs::copy_options::recursive);
  fs::remove(folder_ / "part" / "summary.json");
  for (const uint64_t step : {10, 12}) {
    fs::remove_all(folder_ / "part" / "checkpoints" / checkpoint::checkpoint_name(step));
  }
  const TrainResult resumed = run("part");
  EXPECT_EQ(resumed.summary.digest, whole.summary.digest);
  EXPECT_EQ(resumed.summary.val_loss, whole.summary.val_loss);
}

INSTANTIATE_TEST_SUITE_P(Variants, RecordRuns, testing::ValuesIn(chosen_variants()),
                         [](const auto& test) { return test.param.name; });

class PackedRuns : public testing::Test {
 protected:
  // Four records of 19 tokens, all of them in every step.
  void SetUp() override {
    folder_ = test_folder();
    prepare_records(folder_, 4, 2);
  }
  double loss(const char* name, const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"run.dir=" + (folder_ / name).string(), "train.workers=1",
                                    "allreduce.wire=fp32"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return train(tiny_recipe(folder_, all), {}).summary.train_loss;
  }

  fs::path folder_;
};

TEST_F(PackedRuns, AreThoseOfSeparateRowsIfDocumentsAreSeparate) {
  const std::vector<std::string> packed = {"train.batch=2", "train.sequence=37",
                                           "train.packing=true"};
  const double apart = loss("apart", {"train.batch=4", "train.sequence=18"});
  std::vector<std::string> separate = packed;
  separate.emplace_back("train.separate_documents=true");
  EXPECT_NEAR(loss("separate", separate), apart, 1e-5);
  EXPECT_GT(std::abs(loss("packed", packed) - apart), 1e-4) << "each sees the one before it";
}

}  // namespace
}  // namespace thinwire::launch
