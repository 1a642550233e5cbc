// What every optimizer promises with every method, checked for both tables: a new optimizer or
// method gets these tests for free.
#include <gtest/gtest.h>

#include <set>

#include "tests/launch/copied_run.h"
#include "tests/sync/replicas.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/architectures.h"
#include "thinwire/method/optimizers.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

struct Pair {
  const method::OptimizerSpec* optimizer;
  const method::Method* method;

  std::vector<std::string> overrides() const {
    std::vector<std::string> fields = {"optim.method=" + std::string(optimizer->name),
                                       "sync.method=" + std::string(method->name)};
    if (method->trains_apart) fields.push_back(std::string(method->name) + ".sync_every=4");
    // The method's own update would otherwise replace the optimizer.
    if (method->name == "distro") {
      fields.push_back("distro.update=" + std::string(optimizer->name));
    }
    return fields;
  }
};

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const method::OptimizerSpec* optimizer : method::all_optimizers()) {
    for (const method::Method* method : method::all_methods()) {
      const Pair pair = {optimizer, method};
      try {
        method::load_recipe({}, pair.overrides());
        pairs.push_back(pair);
      } catch (const UsageError&) {  // the method has no use for the optimizer
      }
    }
  }
  return pairs;
}

class OptimizerContract : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  config::Recipe recipe(std::vector<std::string> more = {}) const {
    std::vector<std::string> fields = GetParam().overrides();
    fields.insert(fields.end(), more.begin(), more.end());
    fields.push_back("eval.rows=8");
    return tiny_recipe(folder_, fields);
  }

  fs::path folder_;
};

// The collector compares the replicas' digests after every synchronised step, so in a run that
// finishes all replicas agreed.
TEST_P(OptimizerContract, ReplicasAgreeAndTheRunEnds) {
  const TrainResult result = train(recipe({"train.workers=3"}), {});
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_LT(result.summary.val_loss.at("validation"), 5.6);
}

TEST_P(OptimizerContract, ResumeIsBitwise) {
  const TrainResult whole = train(recipe({"checkpoint.every=1", "checkpoint.keep=100"}), {});
  for (const int64_t step : {1, 6, 11}) {
    const fs::path copy = folder_ / ("from" + std::to_string(step));
    copy_run(folder_ / "run", copy, step);
    const TrainResult resumed = train(recipe({"run.dir=" + copy.string()}), {});
    EXPECT_EQ(resumed.summary.digest, whole.summary.digest) << "resumed after step " << step;
  }
}

TEST_P(OptimizerContract, TheStateHeldIsTheStatePredicted) {
  const config::Recipe used = recipe({"model.vocab=258"});
  const auto tensors = method::tensors_of(used.model);
  const method::OptimizerOptions options = method::optimizer_options(used);
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    for (const method::StatePiece& piece : options.spec->state(options, tensor)) {
      names.insert(piece.name);
    }
  }
  sync::Replicas replicas(used, tensors, 2);
  double held = 0;
  std::set<std::string_view> found;
  for (const StateTensor& part : replicas.strategy(0).state()) {
    const auto name = names.find(part.name);
    if (name == names.end()) continue;
    found.insert(*name);
    held += static_cast<double>(part.values.size_bytes());
  }
  EXPECT_EQ(found, names);
  EXPECT_EQ(held, method::optimizer_bytes(used, tensors));
}

INSTANTIATE_TEST_SUITE_P(Pairs, OptimizerContract, testing::ValuesIn(all_pairs()),
                         [](const auto& pair) {
                           return std::string(pair.param.optimizer->name) + "_" +
                                  std::string(pair.param.method->name);
                         });

}  // namespace
}  // namespace thinwire::launch
