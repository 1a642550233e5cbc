// What every synchronisation method promises, for runs that train an adapter: they synchronise and
// save only what they train.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/adapted_run.h"
#include "tests/launch/copied_run.h"
#include "tests/launch/method_variants.h"
#include "tests/paths.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

class AdapterContract : public testing::TestWithParam<Variant> {
 protected:
  static void SetUpTestSuite() {
    folder_ = tests::memory_folder() / "thinwire" / "AdapterContract";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    prepare_adapter_base(folder_);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_ / "run"); }

  static config::Recipe recipe(std::vector<std::string> overrides = {}, int workers = 2) {
    for (std::string& field : lora_fields(folder_)) overrides.push_back(std::move(field));
    overrides.emplace_back("eval.rows=8");
    return variant_recipe(GetParam(), folder_, std::move(overrides), workers);
  }

  static fs::path folder_;
};

fs::path AdapterContract::folder_;

// The collector compares the replicas' digests after every synchronised step.
TEST_P(AdapterContract, ReplicasAgreeAndLearn) {
  const TrainResult result = train(recipe({"train.steps=24", "optim.lr=0.005"}, 3), {});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_LT(result.summary.val_loss.at("validation"), 5.5);
}

TEST_P(AdapterContract, ResumeIsBitwise) {
  const TrainResult whole = train(recipe({"checkpoint.every=1", "checkpoint.keep=100"}), {});
  for (const int64_t step : {1, 5, 8, 11}) {
    const fs::path copy = folder_ / "copy";
    copy_run(folder_ / "run", copy, step);
    const TrainResult resumed = train(recipe({"run.dir=" + copy.string()}), {});
    EXPECT_EQ(resumed.summary.digest, whole.summary.digest) << "resumed after step " << step;
    EXPECT_EQ(resumed.summary.val_loss, whole.summary.val_loss);
    fs::remove_all(copy);
  }
}

TEST_P(AdapterContract, BytesSentAreThoseOfTheTrainedTensors) {
  config::Recipe used = recipe({}, 4);
  const events::Summary summary = train(used, {}).summary;
  used.model.vocab = 258;  // bytes, EOS, BOS
  const auto tensors = method::tensors_of(used);
  EXPECT_EQ(summary.params, method::parameter_count(tensors));
  const method::Traffic predicted = GetParam().method->traffic(used, tensors, 4);
  if (predicted.exact) {
    EXPECT_DOUBLE_EQ(summary.bytes_sent_per_worker_step, predicted.sent_bytes);
    EXPECT_DOUBLE_EQ(summary.bytes_received_per_worker_step, predicted.received_bytes);
  } else {
    EXPECT_LE(summary.bytes_sent_per_worker_step, predicted.sent_bytes);
    EXPECT_LE(summary.bytes_received_per_worker_step, predicted.received_bytes);
    EXPECT_GT(summary.bytes_sent_per_worker_step, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, AdapterContract, testing::ValuesIn(adapted_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
