// What the traces of diloco_golden_test.cpp do not cover: state, threads, failures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sync/hashed_run.h"
#include "thinwire/method/registry.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

using testing::ElementsAreArray;
using testing::Not;

const std::vector<TensorSpec> kTensors = {{"embedding", {30, 17}, TensorRole::kEmbedding},
                                          {"first", {33, 70}, TensorRole::kMatrix, 0},
                                          {"second", {19, 70}, TensorRole::kMatrix, 1},
                                          {"norm", {70}, TensorRole::kNorm, 1},
                                          {"head", {30, 17}, TensorRole::kHead}};

HashedRunOptions run_with(const std::string& method, int64_t steps, const std::string& fields,
                          int workers = 3) {
  HashedRunOptions options;
  options.recipe =
      fmt::format("[sync]\nmethod = \"{}\"\n[train]\nsteps = {}\nworkers = {}\n[{}]\n{}", method,
                  steps, workers, method, fields);
  options.tensors = kTensors;
  options.gradient_scales = {0.5f, 0.125f, 0.25f, 1, 0.25f};
  options.pull = 0.5f;
  options.workers = workers;
  return options;
}

const std::vector<std::pair<std::string, std::string>> kVariants = {
    {"diloco", "sync_every = 3\n"},
    {"diloco", "sync_every = 5\nouter = \"sgd\"\noverlap = \"inner\"\noverlap_steps = 2\n"},
    {"diloco", "sync_every = 3\noverlap = \"delayed\"\nwire = \"fp4\"\nerror_feedback = true\n"},
    {"diloco", "sync_every = 2\noverlap = \"eager\"\ndepth = 2\nouter = \"average\"\n"},
    {"sparseloco", "sync_every = 3\nchunk = 100\nk = 9\nouter = \"nesterov\"\n"},
    {"streaming", "fragment_layers = 1\nsync_every = 4\noverlap = \"eager\"\nwire = \"int2\"\n"},
};

TEST(DiLoCo, KeepsTheStateThatItsFactsName) {
  for (const auto& [method, fields] : kVariants) {
    HashedRun run(run_with(method, 8, fields));
    method::StateBytes kept;
    kept.consensus = static_cast<double>(run.replicas().shared(0).all().size_bytes());
    for (const StateTensor& part : run.replicas().strategy(0).state()) {
      if (part.name == "local.params") continue;  // the weights themselves, not additional state
      double& bytes = part.agreement == Agreement::kLocal ? kept.local : kept.consensus;
      bytes += static_cast<double>(part.values.size_bytes());
    }
    const auto facts = method::find_method(method).state(run.recipe(), kTensors);
    EXPECT_EQ(kept.consensus, facts.consensus) << fields;
    EXPECT_EQ(kept.local, facts.local) << fields;
  }
}

TEST(DiLoCo, OuterStepsLeaveTheGradientsAlone) {
  for (const char* method : {"diloco", "sparse"}) {
    const HashedRunOptions options = run_with(method, 4, "sync_every = 2\n");
    Replicas replicas(config::parse_recipe(options.recipe, "test", {}, method::method_sections()),
                      kTensors, 3);
    for (uint64_t step = 0; step < 4; ++step) {
      replicas.step(step, 0.01f, [&](int, tensor::Arena& gradients) {
        for (const float value : gradients.tensor(1)) EXPECT_EQ(value, static_cast<float>(step));
        std::ranges::fill(gradients.tensor(1), static_cast<float>(step + 1));
      });
    }
  }
}

TEST(DiLoCo, ThreadsOfAWorkerDoNotChangeItsBits) {
  for (const auto& [method, fields] : kVariants) {
    HashedRunOptions options = run_with(method, 8, fields);
    HashedRun one(options);
    options.threads = 3;
    HashedRun three(options);
    for (int step = 0; step < 8; ++step) {
      ASSERT_TRUE(one.step(0.01f));
      ASSERT_TRUE(three.step(0.01f));
      ASSERT_THAT(three.params(1), ElementsAreArray(one.params(1))) << fields << step;
      ASSERT_THAT(std::as_const(three.replicas().params(2)).all(),
                  ElementsAreArray(std::as_const(one.replicas().params(2)).all()))
          << fields << step;
    }
  }
}

TEST(DiLoCo, PresetsWithTheSameFieldsTrainTheSameBits) {
  const std::string fields = "sync_every = 3\noverlap = \"eager\"\nwire = \"bf16\"\n";
  HashedRun diloco(run_with("diloco", 8, fields));
  HashedRun local_sgd(run_with("local_sgd", 8, fields));
  HashedRun streaming(run_with("streaming", 8, fields + "fragment_layers = 2\n"));
  for (int step = 0; step < 8; ++step) {
    for (HashedRun* run : {&diloco, &local_sgd, &streaming}) ASSERT_TRUE(run->step(0.01f));
    ASSERT_THAT(local_sgd.params(1), ElementsAreArray(diloco.params(1))) << step;
    ASSERT_THAT(streaming.params(1), ElementsAreArray(diloco.params(1))) << step;
  }
}

TEST(DiLoCo, SharedWeightsAgreeAndOwnOnesDoNot) {
  HashedRun run(run_with("diloco", 9, "sync_every = 4\n"));
  for (int step = 0; step < 6; ++step) {
    ASSERT_TRUE(run.step(0.01f));
    ASSERT_THAT(run.params(2), ElementsAreArray(run.params(0)));
  }
  EXPECT_THAT(std::as_const(run.replicas().params(2)).all(),
              Not(ElementsAreArray(std::as_const(run.replicas().params(0)).all())));
}

TEST(DiLoCo, SendsNothingBetweenTheSends) {
  HashedRun run(run_with("diloco", 9, "sync_every = 4\n"));
  for (int step = 1; step <= 9; ++step) {
    const uint64_t before = run.replicas().communicator(0).traffic().sent;
    ASSERT_TRUE(run.step(0.01f));
    EXPECT_EQ(run.replicas().communicator(0).traffic().sent > before, step % 4 == 0 || step == 9)
        << step;
  }
}

double square_sum(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return sum;
}

// Nobody has applied it, so it is sent with what comes next.
TEST(DiLoCo, WhatACommitLeavesOutStaysInTheError) {
  for (const auto& [method, fields] :
       {std::pair("sparseloco", "sync_every = 3\nchunk = 100\nk = 50\n"),
        std::pair("diloco", "sync_every = 3\nwire = \"int2\"\nerror_feedback = true\n")}) {
    HashedRunOptions options = run_with(method, 9, fields);
    HashedRun whole(options);
    options.missing = [](uint64_t round) {
      return round == 2 ? std::set<int>{1} : std::set<int>{};
    };
    HashedRun lossy(options);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(whole.step(0.01f));
      ASSERT_TRUE(lossy.step(0.01f));
    }
    EXPECT_GT(square_sum(lossy.state(1, "local.error")),
              1.2 * square_sum(whole.state(1, "local.error")))
        << method;
    EXPECT_THAT(lossy.state(0, "local.error"), ElementsAreArray(whole.state(0, "local.error")));
    EXPECT_THAT(lossy.params(1), ElementsAreArray(lossy.params(0)));
    EXPECT_THAT(lossy.params(0), Not(ElementsAreArray(whole.params(0))));
  }
}

HashedRunOptions clustered(const std::string& fields, int workers, int clusters) {
  HashedRunOptions options = run_with("diloco", 8, fields, workers);
  const std::string within = fmt::format("within = \"allreduce\"\nclusters = {}\n", clusters);
  options.recipe.insert(options.recipe.find("method"), within);
  return options;
}

TEST(DiLoCo, WorkersOfAClusterTrainTheSameWeights) {
  HashedRun run(clustered("sync_every = 4\n", 5, 2));
  for (int step = 0; step < 6; ++step) ASSERT_TRUE(run.step(0.01f));
  const auto own = [&](int worker) { return std::as_const(run.replicas().params(worker)).all(); };
  EXPECT_THAT(own(1), ElementsAreArray(own(0)));
  EXPECT_THAT(own(4), ElementsAreArray(own(2)));
  EXPECT_THAT(own(2), Not(ElementsAreArray(own(0))));
  for (int worker = 1; worker < 5; ++worker) {
    EXPECT_THAT(run.params(worker), ElementsAreArray(run.params(0)));
  }
}

TEST(DiLoCo, ClustersSendTheBytesPredicted) {
  for (const char* fields : {"sync_every = 3\n", "sync_every = 2\noverlap = \"eager\"\n"}) {
    HashedRun run(clustered(fields, 5, 2));
    for (int step = 0; step < 8; ++step) ASSERT_TRUE(run.step(0.01f));
    const auto predicted = method::find_method("diloco").traffic(run.recipe(), kTensors, 5);
    double sent = 0;
    double received = 0;
    for (int worker = 0; worker < 5; ++worker) {
      sent += static_cast<double>(run.replicas().communicator(worker).traffic().sent);
      received += static_cast<double>(run.replicas().communicator(worker).traffic().received);
    }
    EXPECT_DOUBLE_EQ(sent / 5 / 8, predicted.sent_bytes);
    EXPECT_DOUBLE_EQ(received / 5 / 8, predicted.received_bytes);
  }
}

// A run may be stopped at any step: operations that still read the buffers must be cancelled before
// the buffers are freed.
TEST(DiLoCo, MayEndWhileSumsAreInFlight) {
  for (const auto& [method, fields] : kVariants) {
    HashedRun run(run_with(method, 100, fields));
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(run.step(0.01f));
  }
}

TEST(DiLoCo, LostWorkerIsAnErrorNotAHang) {
  HashedRun run(run_with("diloco", 9, "sync_every = 2\n", 2));
  ASSERT_TRUE(run.step(0.01f));
  run.replicas().communicator(1).leave();
  const auto done = run.step(0.01f);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::kLostPeer);
}

}  // namespace
}  // namespace thinwire::sync
