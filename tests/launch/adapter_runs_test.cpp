// Runs with adapters, and what becomes of their factors afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/launch/adapted_run.h"
#include "tests/launch/copied_run.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/load.h"
#include "thinwire/convert/peft.h"
#include "thinwire/events/summary.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AdapterRuns : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_adapter_base(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  TrainResult run(std::vector<std::string> overrides) const {
    return train(tiny_recipe(folder_, std::move(overrides)), {});
  }
  std::vector<std::string> lora(std::vector<std::string> more = {}) const {
    std::vector<std::string> fields = lora_fields(folder_);
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  }
  void train_lora() const { run(lora({"optim.lr=0.02"})); }
  fs::path path(const char* name) const { return folder_ / name; }
  fs::path checkpoint_of(const char* name, uint64_t step = 12) const {
    return folder_ / name / "checkpoints" / checkpoint::checkpoint_name(step);
  }
  template <typename Action>
  static std::string error_of(const Action& action) {
    return tests::error_of(action);
  }
  // Resumes bit for bit from each of the steps.
  void expect_bitwise_resume(const std::vector<std::string>& fields,
                             const std::vector<int64_t>& steps) const {
    std::vector<std::string> kept = fields;
    kept.insert(kept.end(), {"checkpoint.every=1", "checkpoint.keep=100"});
    const TrainResult whole = run(kept);
    for (const int64_t step : steps) {
      const fs::path copy = folder_ / "copy";
      fs::remove_all(copy);
      copy_run(folder_ / "run", copy, step);
      std::vector<std::string> again = fields;
      again.push_back("run.dir=" + copy.string());
      const TrainResult resumed = run(again);
      EXPECT_EQ(resumed.summary.digest, whole.summary.digest) << "resumed after step " << step;
      EXPECT_EQ(resumed.summary.val_loss, whole.summary.val_loss) << step;
    }
  }

  fs::path folder_;
};

bool same_bits(const tensor::Arena& a, const tensor::Arena& b) {
  return a.all().size() == b.all().size() &&
         std::memcmp(a.all().data(), b.all().data(), a.all().size_bytes()) == 0;
}

TEST_F(AdapterRuns, CheckpointsHoldOnlyWhatIsTrainedAndTheBasesDigest) {
  train_lora();
  const checkpoint::CheckpointReader reader(checkpoint_of("run"));
  EXPECT_TRUE(reader.weights().contains("model.layers.0.self_attn.q_proj.lora_A.weight"));
  EXPECT_TRUE(reader.weights().contains("model.norm.weight"));
  EXPECT_EQ(reader.weights().names().size(), 2u * 2 * 7 + 1);
  const convert::LoadedModel base = convert::load_model(path("base"));
  EXPECT_EQ(checkpoint::read_adapter_base(reader.folder()).digest,
            checkpoint::digest_weights(*base.params));
}

// A base of which no tensor is trained is read into its place, and others as a whole first.
TEST_F(AdapterRuns, BeginWithTheBase) {
  const convert::LoadedModel base = convert::load_model(path("base"));
  for (const bool frozen : {true, false}) {
    const char* const name = frozen ? "frozen" : "norm_trained";
    const std::vector<std::string> fields =
        lora({"train.steps=1", "schedule.warmup=0", "optim.lr=1e-30",
              frozen ? "adapter.whole=[]" : "adapter.whole=[\"model.norm\"]",
              "run.dir=" + path(name).string()});
    config::Recipe known = tiny_recipe(folder_, fields);
    known.model.vocab = base.model.vocab;
    EXPECT_EQ(method::freezes_whole_base(known), frozen);
    run(fields);
    EXPECT_TRUE(same_bits(*base.params, *convert::load_model(path(name)).params)) << name;
    EXPECT_EQ(checkpoint::read_adapter_base(checkpoint_of(name, 1)).digest,
              checkpoint::digest_weights(*base.params));
  }
}

// Nothing rounds: products read the same operands as with a base in fp32 and its copy.
TEST_F(AdapterRuns, OnABaseInBf16HaveTheBitsOfOneInFp32) {
  convert::export_hf(path("base"), path("rounded"), DType::kBf16);
  for (const std::string whole : {"[]", "[\"model.norm\"]"}) {
    const auto trained = [&](const std::string& weights) {
      const TrainResult result =
          run(lora({"train.init=" + path("rounded").string(), "adapter.whole=" + whole,
                    "optim.lr=0.02", "train.precision=bf16", "train.weights=" + weights}));
      fs::remove_all(path("run"));
      return result.summary;
    };
    const events::Summary expected = trained("fp32"), got = trained("bf16");
    EXPECT_EQ(got.digest, expected.digest) << whole;
    EXPECT_EQ(got.val_loss, expected.val_loss) << whole;
  }
}

TEST_F(AdapterRuns, OnABaseInBf16ResumeAndMerge) {
  const std::vector<std::string> fields =
      lora({"optim.lr=0.02", "train.precision=bf16", "train.weights=bf16"});
  expect_bitwise_resume(fields, {1, 7});
  // The base is in fp32, and only the run rounds it.
  const convert::LoadedModel base = convert::load_model(path("base"));
  EXPECT_EQ(checkpoint::read_adapter_base(checkpoint_of("run")).digest,
            checkpoint::digest_weights(*base.params));
  const convert::LoadedModel tuned = convert::load_model(path("run"));
  EXPECT_FALSE(same_bits(*base.params, *tuned.params));
  const double loss = events::read_summary(path("run") / "summary.json").val_loss.at("validation");
  const TrainResult exact =
      run(lora({"optim.lr=0.02", "train.precision=bf16", "run.dir=" + path("fp32").string()}));
  EXPECT_NEAR(exact.summary.val_loss.at("validation"), loss, 0.01);
  convert::export_hf(path("run"), path("merged"), DType::kF32);
  const TrainResult still =
      run({"train.init=" + path("merged").string(), "optim.lr=1e-30", "train.steps=1",
           "schedule.warmup=0", "optim.weight_decay=0", "run.dir=" + path("still").string()});
  EXPECT_NEAR(still.summary.val_loss.at("validation"), loss, 0.01);
}

TEST_F(AdapterRuns, OnABaseInNf4ResumeAndMergeIntoTheBaseAsItWas) {
  const std::vector<std::string> fields =
      lora({"optim.lr=0.02", "train.precision=bf16", "train.weights=nf4", "adapter.whole=[]"});
  expect_bitwise_resume(fields, {1, 7});
  const convert::LoadedModel base = convert::load_model(path("base"));
  EXPECT_EQ(checkpoint::read_adapter_base(checkpoint_of("run")).digest,
            checkpoint::digest_weights(*base.params));
  EXPECT_FALSE(same_bits(*base.params, *convert::load_model(path("run")).params));
  const double loss = events::read_summary(path("run") / "summary.json").val_loss.at("validation");
  const TrainResult exact = run(lora({"optim.lr=0.02", "train.precision=bf16", "adapter.whole=[]",
                                      "run.dir=" + path("fp32").string()}));
  EXPECT_NE(exact.summary.val_loss.at("validation"), loss);
  EXPECT_NEAR(exact.summary.val_loss.at("validation"), loss, 0.05);
}

TEST_F(AdapterRuns, OnABaseInInt8LearnWhatOneInBf16Does) {
  const auto fields = [this](const char* format, const char* folder) {
    return lora({"optim.lr=0.02", "train.precision=bf16", "adapter.whole=[]",
                 std::string("train.weights=") + format, "run.dir=" + path(folder).string()});
  };
  const double exact = run(fields("bf16", "exact")).summary.val_loss.at("validation");
  expect_bitwise_resume(fields("int8", "run"), {1, 7});
  const double loss = events::read_summary(path("run") / "summary.json").val_loss.at("validation");
  EXPECT_NE(loss, exact);
  EXPECT_NEAR(loss, exact, 0.01);
}

// Tensors that are trained in full beside it are not encoded: where nothing is learnt, they are
// still the base's.
TEST_F(AdapterRuns, OnABaseInNf4MayTrainOtherTensorsInFull) {
  const auto fields = [this](const char* rate) {
    return lora({std::string("optim.lr=") + rate, "schedule.warmup=0", "train.precision=bf16",
                 "train.weights=nf4", "adapter.whole=[\"model.norm\", \"k_proj\"]",
                 "adapter.targets=[\"q_proj\"]", "run.dir=" + path(rate).string()});
  };
  const convert::LoadedModel base = convert::load_model(path("base"));
  run(fields("1e-30"));
  EXPECT_TRUE(same_bits(*base.params, *convert::load_model(path("1e-30")).params));
  run(fields("0.02"));
  EXPECT_FALSE(same_bits(*base.params, *convert::load_model(path("0.02")).params));
}

TEST_F(AdapterRuns, AreEvaluatedAsTheyAreExported) {
  const double loss = run(lora({"optim.lr=0.02"})).summary.val_loss.at("validation");
  const convert::LoadedModel base = convert::load_model(path("base"));
  EXPECT_FALSE(same_bits(*base.params, *convert::load_model(path("run")).params));
  // A run on the merged model that learns nothing evaluates the same.
  convert::export_hf(path("run"), path("merged"), DType::kF32);
  const TrainResult still =
      run({"train.init=" + path("merged").string(), "optim.lr=1e-30", "train.steps=1",
           "schedule.warmup=0", "optim.weight_decay=0", "run.dir=" + path("still").string()});
  EXPECT_NEAR(still.summary.val_loss.at("validation"), loss, 1e-4);
}

TEST_F(AdapterRuns, RefuseToResumeOnAnotherBase) {
  run(lora({"checkpoint.every=6", "checkpoint.keep=9"}));
  fs::remove_all(checkpoint_of("run"));
  fs::remove(path("run") / "summary.json");
  const auto resume = [&] { run(lora({"checkpoint.every=6", "checkpoint.keep=9"})); };
  fs::rename(path("base"), path("hidden"));
  EXPECT_THAT(error_of(resume), HasSubstr("base holds no model"));
  run({"run.dir=" + path("base").string(), "train.steps=5", "train.workers=1"});
  EXPECT_THAT(error_of(resume), AllOf(HasSubstr("the factors in"), HasSubstr("another model")));
  fs::remove_all(path("base"));
  fs::rename(path("hidden"), path("base"));
  EXPECT_EQ(error_of(resume), tests::kNoError);
}

TEST_F(AdapterRuns, AreLoadedWithTheirBaseWhereverItIs) {
  train_lora();
  const convert::LoadedModel expected = convert::load_model(path("run"));
  fs::rename(path("base"), path("moved"));
  EXPECT_THAT(
      error_of([&] { convert::load_model(path("run")); }),
      AllOf(HasSubstr("the factors in"), HasSubstr("base holds no model"), HasSubstr("--base")));
  EXPECT_TRUE(same_bits(*convert::load_model(path("run"), path("moved")).params, *expected.params));
  // The factors are not added to a model that has them already.
  fs::rename(path("moved"), path("base"));
  convert::export_hf(path("run"), path("merged"), DType::kF32);
  EXPECT_THAT(error_of([&] { convert::load_model(path("run"), path("merged")); }),
              AllOf(HasSubstr("another model, or this one with factors already merged"),
                    HasSubstr("name the original one")));
  EXPECT_THAT(error_of([&] { convert::load_model(path("merged"), path("base")); }),
              HasSubstr("holds a whole model, which takes no base"));
}

TEST_F(AdapterRuns, OfAnotherShapeAreRefused) {
  train_lora();
  run({"model.layers=1", "run.dir=" + path("other").string(), "train.steps=1",
       "schedule.warmup=0"});
  EXPECT_THAT(error_of([&] { convert::load_model(path("run"), path("other")); }),
              HasSubstr("belong to another model"));
}

TEST_F(AdapterRuns, GoThroughAPeftFolderUnchanged) {
  train_lora();
  convert::export_peft(path("run"), path("peft"), DType::kF32);
  const convert::LoadedModel expected = convert::load_model(path("run"));
  const convert::LoadedModel got = convert::load_model(path("peft"));
  EXPECT_TRUE(same_bits(*got.params, *expected.params));
  ASSERT_NE(got.vocabulary, nullptr);
  convert::import_hf(path("peft"), path("imported"));
  EXPECT_TRUE(same_bits(*convert::load_model(path("imported")).params, *expected.params));
  // A run may go on with the factors.
  const auto go_on = [&](const char* dir, const fs::path& from, const char* rank) {
    run(lora({"adapter.init=" + from.string(), std::string("adapter.rank=") + rank, "train.steps=1",
              "schedule.warmup=0", "optim.lr=1e-30", "run.dir=" + path(dir).string()}));
  };
  go_on("on", path("peft"), "4");
  EXPECT_TRUE(same_bits(*convert::load_model(path("on")).params, *expected.params));
  go_on("on2", path("run"), "4");
  EXPECT_TRUE(same_bits(*convert::load_model(path("on2")).params, *expected.params));
  EXPECT_THAT(error_of([&] { go_on("on3", path("peft"), "3"); }),
              HasSubstr("[adapter] rank = 3, but the factors in"));
}

TEST_F(AdapterRuns, AreExportedForPeftOnlyWithTheBaseTheyHad) {
  EXPECT_THAT(error_of([&] { convert::export_peft(path("base"), path("peft"), DType::kF32); }),
              HasSubstr("is a run with adapter.kind = \"none\", not \"lora\""));
  EXPECT_FALSE(fs::exists(path("peft")));
}

TEST_F(AdapterRuns, OfReloraMergeAndResume) {
  const std::vector<std::string> relora = {
      "adapter.kind=relora",  "adapter.rank=4",  "adapter.whole=[\"embed_tokens\", \"*norm\"]",
      "relora.merge_every=5", "relora.rewarm=2", "optim.lr=0.01",
      "train.precision=bf16"};
  expect_bitwise_resume(relora, {1, 4, 5, 6, 10, 11});
  // The exported model has the merged base and the factors since.
  const convert::LoadedModel loaded = convert::load_model(path("run"));
  EXPECT_EQ(loaded.layout->size(), method::tensors_of(loaded.model).size());
  EXPECT_THAT(error_of([&] { convert::load_model(path("run"), path("base")); }),
              HasSubstr("trained relora and holds its complete model"));
}

TEST_F(AdapterRuns, OfReloraMayBeginWithAModel) {
  const auto result = run({"adapter.kind=relora", "adapter.rank=4", "relora.merge_every=4",
                           "relora.rewarm=2", "train.init=" + path("base").string()});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  fs::remove_all(path("base"));
  EXPECT_EQ(error_of([&] { convert::load_model(path("run")); }), tests::kNoError);
}

TEST_F(AdapterRuns, OfLowRankNeedNoBase) {
  const std::vector<std::string> low_rank = {"adapter.kind=low_rank", "adapter.rank=4",
                                             "optim.lr=0.01"};
  expect_bitwise_resume(low_rank, {1, 7});
  const convert::LoadedModel loaded = convert::load_model(path("run"));
  EXPECT_EQ(loaded.layout->size(), method::tensors_of(loaded.model).size());
}

}  // namespace
}  // namespace thinwire::launch
