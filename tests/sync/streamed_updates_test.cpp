// Updates during the backward pass, against those at its end.
#include "thinwire/methods/allreduce/streamed_updates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/sync/replicas.h"
#include "tests/tiny_run.h"
#include "thinwire/method/registry.h"

namespace thinwire::sync {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr uint64_t kSteps = 8;

std::vector<TensorSpec> specs() {
  return {{"embed", {12, 8}, TensorRole::kEmbedding}, {"norm.0", {10}, TensorRole::kNorm, 0},
          {"w.0", {7, 10}, TensorRole::kMatrix, 0},   {"w.1", {9, 10}, TensorRole::kMatrix, 1},
          {"norm", {10}, TensorRole::kNorm},          {"head", {12, 8}, TensorRole::kHead}};
}

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.push_back(fmt::format("train.steps={}", kSteps));
  return method::load_recipe({}, fields);
}

// Steps of `workers` replicas, with unequal weights where they are averaged.
std::unique_ptr<Replicas> trained(std::vector<std::string> fields, int workers,
                                  const std::vector<TensorSpec>& tensors = specs()) {
  fields.push_back(fmt::format("train.workers={}", workers));
  auto replicas = std::make_unique<Replicas>(recipe_with(fields), tensors, workers);
  for (int worker = 0; worker < workers; ++worker) {
    random_gradients(0, 1000, replicas->params(worker));
  }
  std::vector<float> weights(size_t(workers), 1.0f / float(workers));
  if (workers == 3) weights = {0.5f, 0.25f, 0.25f};
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto reports = replicas->step(
        step, 1e-2f, [&](int worker, tensor::Arena& out) { random_gradients(worker, step, out); },
        weights);
    for (const auto& report : reports) EXPECT_TRUE(report.has_value());
  }
  return replicas;
}

void expect_same_bits(const std::vector<std::string>& fields, int workers) {
  std::vector<std::string> layer = fields;
  layer.emplace_back("train.update=layer");
  const auto by_step = trained(fields, workers);
  const auto by_layer = trained(layer, workers);
  for (int worker = 0; worker < workers; ++worker) {
    EXPECT_THAT(by_layer->params(worker).all(), ElementsAreArray(by_step->params(worker).all()))
        << fmt::format("{} of {}, {}", worker, workers, fmt::join(fields, " "));
    EXPECT_THAT(by_layer->shared(worker).all(), ElementsAreArray(by_step->shared(worker).all()));
  }
}

TEST(StreamedUpdates, HaveTheBitsOfUpdatesAtTheEndOfTheStep) {
  for (int workers = 1; workers <= 4; ++workers) {
    for (const char* clip : {"optim.clip=0", "optim.clip_by=previous", "optim.clip_by=tensor"}) {
      expect_same_bits({clip}, workers);
      expect_same_bits({clip, "optim.method=muon", "allreduce.wire=fp32"}, workers);
      expect_same_bits({clip, "sync.method=diloco", "diloco.sync_every=3"}, workers);
    }
  }
}

TEST(StreamedUpdates, HaveTheSameBitsUnderEveryMethodThatTrainsApart) {
  const std::vector<std::vector<std::string>> methods = {
      {"sync.method=local_sgd", "local_sgd.sync_every=2"},
      {"sync.method=diloco", "diloco.sync_every=3", "diloco.overlap=inner"},
      {"sync.method=diloco", "diloco.sync_every=2", "diloco.overlap=eager"},
      {"sync.method=diloco", "diloco.sync_every=4", "sync.within=allreduce", "sync.clusters=2"},
      {"sync.method=streaming", "streaming.fragment_layers=1", "streaming.sync_every=6"},
      {"sync.method=streaming", "streaming.fragment_layers=1", "streaming.sync_every=6",
       "streaming.overlap=none"},
      {"sync.method=sparseloco", "sparseloco.sync_every=3"}};
  for (std::vector<std::string> fields : methods) {
    fields.emplace_back("optim.clip=0");
    expect_same_bits(fields, 4);
  }
}

// Three slabs each of embedding and head, against all of their rows at once.
TEST(StreamedUpdates, HaveTheSameBitsInSlabsOfRows) {
  std::vector<TensorSpec> tensors = specs();
  for (const size_t table : {size_t{0}, tensors.size() - 1}) tensors[table].shape = {1100, 8};
  const std::vector<std::vector<std::string>> variants = {
      {"optim.clip=0"},
      {"optim.clip=0.5", "optim.clip_by=previous", "optim.state=8bit"},
      {"optim.clip=0.5", "optim.clip_by=previous", "optim.method=muon", "sync.method=diloco",
       "diloco.sync_every=3"},
      {"optim.clip=0", "optim.method=galore", "galore.rank=3"}};
  for (std::vector<std::string> fields : variants) {
    fields.emplace_back("train.update=layer");
    std::vector<std::string> slabs = fields;
    slabs.emplace_back("model.vocab_slabs=3");
    for (const int workers : {1, 2}) {
      const auto whole = trained(fields, workers, tensors);
      const auto cut = trained(slabs, workers, tensors);
      for (int worker = 0; worker < workers; ++worker) {
        EXPECT_THAT(cut->params(worker).all(), ElementsAreArray(whole->params(worker).all()))
            << fmt::format("{} of {}, {}", worker, workers, fmt::join(fields, " "));
      }
    }
  }
}

TEST(Clipping, ByTensorAndByThePreviousNormDifferFromByStep) {
  const auto weights = [&](const char* by) {
    const auto replicas =
        trained({"optim.clip=0.5", by, "optim.method=muon", "muon.momentum=0"}, 1);
    const auto all = replicas->params(0).all();
    return std::vector<float>(all.begin(), all.end());
  };
  const auto step = weights("optim.clip_by=step");
  EXPECT_NE(weights("optim.clip_by=tensor"), step);
  EXPECT_NE(weights("optim.clip_by=previous"), step);
}

TEST(StreamedUpdates, ANonFiniteGradientEndsTheRunBeforeItsTensorIsTouched) {
  Replicas replicas(recipe_with({"train.update=layer", "optim.clip=0"}), specs(), 1);
  random_gradients(0, 1000, replicas.params(0));
  constexpr size_t kBad = 2;  // w.0
  const auto before = replicas.params(0).tensor(kBad);
  const std::vector<float> kept(before.begin(), before.end());
  Round round;
  round.learning_rate = 1e-2f;
  round.roster = {{0, {}, 1.0f, 0}};
  std::vector<float> gradient(kept.size(), 1.0f);
  gradient[3] = std::numeric_limits<float>::quiet_NaN();
  const std::string message =
      tests::error_of([&] { replicas.strategy(0).take_gradient(round, kBad, gradient); });
  EXPECT_THAT(message, HasSubstr("step 1: the gradient norm is nan on worker 0"));
  EXPECT_THAT(replicas.params(0).tensor(kBad), ElementsAreArray(kept));
}

// Those before it have changed by then.
TEST(StreamedUpdates, ANonFiniteSlabEndsTheRunBeforeItsRowsAreTouched) {
  const std::vector<TensorSpec> tensors = {{"head", {1024, 8}, TensorRole::kHead}};
  Replicas replicas(recipe_with({"train.update=layer", "optim.clip=0", "model.vocab_slabs=2"}),
                    tensors, 1);
  random_gradients(0, 1000, replicas.params(0));
  const auto rows = replicas.params(0).tensor(0).subspan(4096);
  const std::vector<float> kept(rows.begin(), rows.end());
  Round round;
  round.learning_rate = 1e-2f;
  round.roster = {{0, {}, 1.0f, 0}};
  std::vector<float> gradient(4096, 1.0f);
  replicas.strategy(0).take_gradient(round, 0, gradient);
  gradient[4095] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(tests::error_of([&] { replicas.strategy(0).take_gradient(round, 0, gradient); }),
              HasSubstr("the gradient norm is inf on worker 0"));
  EXPECT_THAT(replicas.params(0).tensor(0).subspan(4096), ElementsAreArray(kept));
}

// Also where the bases of projections are agreed on.
TEST(StreamedUpdates, ALostWorkerIsAnErrorNotAHang) {
  for (const char* forms : {"optim.gradients=whole", "optim.gradients=projected"}) {
    Replicas replicas(recipe_with({"train.update=layer", "optim.clip=0", "train.workers=2",
                                   "optim.method=galore", "galore.rank=3", forms}),
                      specs(), 2);
    replicas.communicator(1).leave();
    const auto reports = replicas.step(
        0, 1e-2f, [](int worker, tensor::Arena& out) { random_gradients(worker, 0, out); });
    ASSERT_FALSE(reports[0].has_value());
    EXPECT_EQ(reports[0].error().kind, FailureKind::kLostPeer);
  }
}

TEST(StreamedUpdates, BytesSentAreTheBytesPredicted) {
  for (const char* wire : {"bf16", "fp4"}) {
    const config::Recipe recipe =
        recipe_with({"train.update=layer", "optim.clip=0", "train.workers=3",
                     fmt::format("allreduce.wire={}", wire)});
    Replicas replicas(recipe, specs(), 3);
    replicas.step(0, 1e-2f,
                  [](int worker, tensor::Arena& out) { random_gradients(worker, 0, out); });
    double sent = 0;
    for (int worker = 0; worker < 3; ++worker) {
      sent += double(replicas.communicator(worker).traffic().sent);
    }
    const auto predicted = method::find_method("allreduce").traffic(recipe, specs(), 3);
    EXPECT_DOUBLE_EQ(sent / 3, predicted.sent_bytes) << wire;
  }
}

}  // namespace
}  // namespace thinwire::sync
