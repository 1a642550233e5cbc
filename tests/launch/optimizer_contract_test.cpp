// What every optimizer promises with every method, checked for both tables: a new optimizer or
// method gets these tests for free.
#include <gtest/gtest.h>

#include <set>

#include "tests/launch/copied_run.h"
#include "tests/paths.h"
#include "tests/sync/replicas.h"
#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

struct Pair {
  const method::OptimizerSpec* optimizer;
  const method::Method* method;
  std::string variant = {};               // of the optimizer; empty: its defaults
  std::vector<std::string> options = {};  // that make it

  std::vector<std::string> overrides() const {
    std::vector<std::string> fields = {"optim.method=" + std::string(optimizer->name),
                                       "sync.method=" + std::string(method->name)};
    if (method->local_updates) fields.push_back(std::string(method->name) + ".sync_every=4");
    // DisTrO's other updates replace the optimizer; this one refuses all but AdamW.
    if (method->name == "distro") fields.emplace_back("distro.update=adamw");
    fields.insert(fields.end(), options.begin(), options.end());
    return fields;
  }
  bool renews() const { return !variant.empty() && variant.front() != '_'; }
  std::string name() const {
    return std::string(optimizer->name) + variant + "_" + std::string(method->name);
  }
};

// Subspaces that are renewed during the run, under a method whose replicas share gradients and one
// whose workers have their own.
void append_renewals(std::vector<Pair>& pairs) {
  const auto add = [&](const char* optimizer, const char* variant,
                       const std::vector<std::string>& options) {
    for (const char* method : {"allreduce", "diloco"}) {
      Pair pair = {&method::find_optimizer(optimizer), &method::find_method(method), variant};
      for (const std::string& option : options) {
        pair.options.push_back(std::string(optimizer) + "." + option);
      }
      if (pair.variant == "Tied") pair.options.emplace_back("model.tied=true");
      pairs.push_back(pair);
    }
  };
  add("galore", "Renewed", {"refresh=3", "rank=5"});
  add("galore", "Rotated", {"refresh=4", "moments=rotate", "ranks=[\"*.mlp.*=0\"]"});
  add("natural_galore", "Rotated", {"refresh=3", "history=4", "moments=rotate"});
  add("natural_galore", "Cleared",
      {"refresh=3", "sides=two", "history=5", "at_refresh=clear", "damping_is=relative"});
  const std::vector<std::string> projected = {"optim.gradients=projected", "galore.refresh=3"};
  std::vector<std::string> thin = projected;
  thin.insert(thin.end(), {"optim.state=8bit", "optim.bases=8bit", "train.update=layer",
                           "optim.clip=0", "train.precision=bf16", "model.recompute=block",
                           "model.block_inputs=bf16", "model.vocab_slabs=3"});
  const auto& galore = method::find_optimizer("galore");
  for (const char* method : {"allreduce", "diloco"}) {
    pairs.push_back({&galore, &method::find_method(method), "Projected", projected});
    pairs.push_back({&galore, &method::find_method(method), "Thin", thin});
  }
  std::vector<std::string> seeded = projected;
  seeded.emplace_back("galore.basis=seeded");
  std::vector<std::string> thin_seeded = thin;
  thin_seeded.emplace_back("galore.basis=seeded");
  std::vector<std::string> whole_steps = seeded;  // as DisTrO needs
  whole_steps.insert(whole_steps.end(), {"optim.state=8bit", "optim.bases=8bit"});
  for (const char* method : {"allreduce", "diloco", "distro"}) {
    const bool layers = std::string_view(method) != "distro";
    pairs.push_back({&galore, &method::find_method(method), "Seeded", seeded});
    pairs.push_back(
        {&galore, &method::find_method(method), "ThinSeeded", layers ? thin_seeded : whole_steps});
  }
  add("galore", "SeededWhole", {"refresh=3", "basis=seeded"});
  add("apollo", "Redrawn", {"refresh=3"});
  add("apollo", "Mini", {"refresh=4", "rank=1", "scaling=tensor", "scale=11.3"});
  add("fira", "Rotated", {"refresh=3", "moments=rotate"});
  add("scale", "Tied", {});
}

// A method that says it holds less than the optimizer's state has no optimizer, as signSGD.
bool keeps_optimizer(const Pair& pair) {
  std::vector<std::string> overrides = pair.overrides();
  overrides.emplace_back("model.vocab=258");
  const config::Recipe recipe = method::load_recipe({}, overrides);
  const auto tensors = method::tensors_of(recipe);
  const method::StateBytes state = pair.method->state(recipe, tensors);
  return state.consensus + state.local >= method::optimizer_bytes(recipe, tensors);
}

// State in fewer bits: every optimizer under a method whose replicas share gradients and one whose
// workers have their own, and AdamW under every method. Subspaces are renewed on the way.
void append_formats(std::vector<Pair>& pairs) {
  std::vector<Pair> narrow;
  for (const Pair& pair : pairs) {
    const bool renewed = pair.variant == "Rotated" || pair.variant == "Redrawn";
    const bool usual = pair.method->name == "allreduce" || pair.method->name == "diloco";
    if (!(renewed || (pair.variant.empty() && (usual || pair.optimizer->name == "adamw")))) {
      continue;
    }
    for (const char* format : {"bf16", "8bit"}) {
      if (format == std::string("bf16") && !usual) continue;
      Pair one = pair;
      one.variant += "_" + std::string(format);
      one.options.push_back("optim.state=" + std::string(format));
      try {
        keeps_optimizer(one);
        narrow.push_back(one);
      } catch (const UsageError&) {  // the optimizer has no state that could be kept so
      }
    }
  }
  // Weights in bf16, and state and bases in 8 bits.
  for (const method::OptimizerSpec* optimizer : method::all_optimizers()) {
    Pair pair = {optimizer, &method::find_method("allreduce"), "_bf16Weights"};
    pair.options = {"train.weights=bf16", "train.precision=bf16", "optim.state=8bit"};
    if (optimizer->name == "adamw") {
      pair.options.insert(pair.options.end(), {"train.update=layer", "optim.clip_by=previous"});
    }
    Pair with_bases = pair;
    with_bases.options.emplace_back("optim.bases=8bit");
    try {
      keeps_optimizer(with_bases);
      narrow.push_back(with_bases);
    } catch (const UsageError&) {  // the optimizer has no bases
      narrow.push_back(pair);
    }
  }
  pairs.insert(pairs.end(), narrow.begin(), narrow.end());
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const method::OptimizerSpec* optimizer : method::all_optimizers()) {
    for (const method::Method* method : method::all_methods()) {
      const Pair pair = {optimizer, method};
      try {
        if (keeps_optimizer(pair)) pairs.push_back(pair);
      } catch (const UsageError&) {  // the method has no use for the optimizer
      }
    }
  }
  append_renewals(pairs);
  append_formats(pairs);
  return pairs;
}

class OptimizerContract : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    // Hundreds of small checkpoints.
    folder_ = test_folder(tests::memory_folder());
    prepare_tiny_corpus(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

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
  std::vector<int64_t> steps = {1, 6, 11};
  if (GetParam().renews()) steps = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (const int64_t step : steps) {
    const fs::path copy = folder_ / ("from" + std::to_string(step));
    copy_run(folder_ / "run", copy, step);
    const TrainResult resumed = train(recipe({"run.dir=" + copy.string()}), {});
    EXPECT_EQ(resumed.summary.digest, whole.summary.digest) << "resumed after step " << step;
  }
}

TEST_P(OptimizerContract, TheStateHeldIsTheStatePredicted) {
  const config::Recipe used = recipe({"model.vocab=258"});
  const auto tensors = method::tensors_of(used);
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
    // Blocks of 8 bits have their exponents beside them.
    const auto name = names.find(part.name.substr(0, part.name.find(".exponents")));
    if (name == names.end()) continue;
    found.insert(*name);
    held += static_cast<double>(part.bytes.size());
  }
  EXPECT_EQ(found, names);
  EXPECT_EQ(held, method::optimizer_bytes(used, tensors));
}

INSTANTIATE_TEST_SUITE_P(Pairs, OptimizerContract, testing::ValuesIn(all_pairs()),
                         [](const auto& pair) { return pair.param.name(); });

}  // namespace
}  // namespace thinwire::launch
