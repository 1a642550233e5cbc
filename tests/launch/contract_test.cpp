// What every synchronisation method promises, checked for the whole registry: a new method gets
// these tests for free.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launch/copied_run.h"
#include "tests/launch/method_variants.h"
#include "tests/paths.h"
#include "tests/sanitized.h"
#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/registry.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::launch {
namespace {

class Contract : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    // Hundreds of small checkpoints: syncing them to a disk took longer than everything else.
    folder_ = test_folder(tests::memory_folder());
    prepare_tiny_corpus(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static const method::Method& method() { return *GetParam().method; }

  config::Recipe recipe(std::vector<std::string> overrides = {}, int workers = 2) const {
    overrides.emplace_back("eval.rows=8");
    return variant_recipe(GetParam(), folder_, std::move(overrides), workers);
  }

  fs::path folder_;
};

TEST_P(Contract, HasFactsAndARecordWithEveryPart) {
  const auto known = sync::all_algorithms();
  ASSERT_EQ(std::ranges::count(known, method().algorithm, &sync::Algorithm::name), 1);
  const sync::Algorithm& record =
      **std::ranges::find(known, method().algorithm, &sync::Algorithm::name);
  EXPECT_NE(record.payloads, nullptr) << "its runs could not be served";
  EXPECT_NE(record.contributions, nullptr) << "its members could not be audited";
  EXPECT_FALSE(method().sentence.empty());
}

TEST_P(Contract, RecipeRoundTrips) {
  const std::string text = config::print_recipe(recipe());
  const config::Recipe again = config::parse_recipe(text, "printed", {}, method::method_sections());
  EXPECT_EQ(config::print_recipe(again), text);
}

// The collector compares the replicas' digests after every synchronised step, so in a run that
// finishes all replicas agreed.
TEST_P(Contract, ReplicasAgreeAndTheRunEnds) {
  for (const int workers : {1, 2, 3, 4}) {
    const std::string dir = "run.dir=" + (folder_ / std::to_string(workers)).string();
    const TrainResult result = train(recipe({dir}, workers), {});
    EXPECT_EQ(result.outcome, Outcome::kFinished);
    EXPECT_LT(result.summary.val_loss.at("validation"), 5.6);
  }
}

// The sanitizers look at what resuming does, not at the bits: there a few steps suffice.
TEST_P(Contract, ResumeIsBitwiseFromEveryStep) {
  const TrainResult whole = train(recipe({"checkpoint.every=1", "checkpoint.keep=100"}), {});
  for (int64_t step = 1; step <= 12; step += tests::kSanitized ? 4 : 1) {
    const fs::path copy = folder_ / ("from" + std::to_string(step));
    copy_run(folder_ / "run", copy, step);
    const TrainResult resumed = train(recipe({"run.dir=" + copy.string()}), {});
    EXPECT_EQ(resumed.summary.digest, whole.summary.digest) << "resumed after step " << step;
    EXPECT_EQ(resumed.summary.steps, 12);
    EXPECT_EQ(resumed.summary.val_loss, whole.summary.val_loss);
    EXPECT_DOUBLE_EQ(resumed.summary.bytes_sent_per_worker_step,
                     whole.summary.bytes_sent_per_worker_step);
  }
}

// The run's end closed its last round and applied everything in flight; the next steps begin from
// there, and a run resumed among them must remember it. In a run that finishes all replicas agreed.
TEST_P(Contract, AFinishedRunGivenMoreStepsGoesOnAndResumes) {
  train(recipe(), {});
  const std::string more = "train.steps=19";
  const TrainResult whole = train(recipe({more, "checkpoint.every=1", "checkpoint.keep=100"}), {});
  EXPECT_EQ(whole.summary.steps, 19);
  EXPECT_LT(whole.summary.val_loss.at("validation"), 5.6);
  for (const int64_t step : {13, 16}) {
    const fs::path copy = folder_ / ("from" + std::to_string(step));
    copy_run(folder_ / "run", copy, step);
    EXPECT_EQ(train(recipe({more, "run.dir=" + copy.string()}), {}).summary.digest,
              whole.summary.digest)
        << "resumed after step " << step;
  }
}

TEST_P(Contract, BytesSentAreTheBytesPredicted) {
  const config::Recipe used = recipe({}, 4);
  const events::Summary summary = train(used, {}).summary;
  method::ModelSpec model(used);
  model.vocab = 258;  // bytes, EOS, BOS
  const auto tensors = method::tensors_of(model);
  const method::Traffic predicted = method().traffic(used, tensors, 4);
  if (predicted.exact) {
    EXPECT_DOUBLE_EQ(summary.bytes_sent_per_worker_step, predicted.sent_bytes);
    EXPECT_DOUBLE_EQ(summary.bytes_received_per_worker_step, predicted.received_bytes);
  } else {
    EXPECT_LE(summary.bytes_sent_per_worker_step, predicted.sent_bytes);
    EXPECT_LE(summary.bytes_received_per_worker_step, predicted.received_bytes);
    EXPECT_GT(summary.bytes_sent_per_worker_step, 0);
  }
}

TEST_P(Contract, OneWorkerSendsNothing) {
  const events::Summary summary = train(recipe({}, 1), {}).summary;
  EXPECT_EQ(summary.bytes_sent_per_worker_step, 0);
  EXPECT_EQ(summary.bytes_received_per_worker_step, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, Contract, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
