#include "thinwire/sync/distro.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <limits>

#include "tests/sync/distro_run.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/registry.h"

namespace thinwire::sync {
namespace {

using testing::Each;
using Values = std::vector<float>;

const std::vector<TensorSpec> kTensors = {{"embedding", {96, 64}, TensorRole::kEmbedding},
                                          {"matrix", {64, 86}, TensorRole::kMatrix, 0},
                                          {"norm", {64}, TensorRole::kNorm, 0},
                                          {"prime", {131}, TensorRole::kNorm}};

DistroRunOptions small_run(int workers, const std::string& fields = "") {
  DistroRunOptions options;
  options.recipe = "[sync]\nmethod = \"distro\"\n[distro]\nchunk = 32\nk = 16\n" + fields;
  options.tensors = kTensors;
  options.gradient_scales = {0.5f, 0.125f, 1, 0.25f};
  options.workers = workers;
  return options;
}

Values params_after(DistroRun& run, int steps) {
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(run.step(0.01f));
  return {run.params(0).begin(), run.params(0).end()};
}

class ReplicasOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Distro, ReplicasOf, testing::Values(2, 3, 5, 8));

TEST_P(ReplicasOf, AgreeBitForBitAfterEveryStep) {
  for (const char* update : {"sign", "adamw", "sgd"}) {
    DistroRun run(small_run(GetParam(), fmt::format("update = \"{}\"\n", update)));
    for (int step = 0; step < 6; ++step) {
      ASSERT_TRUE(run.step(0.01f));
      const Values first(run.params(0).begin(), run.params(0).end());
      for (int worker = 1; worker < GetParam(); ++worker) {
        ASSERT_THAT(run.params(worker), testing::ElementsAreArray(first)) << update;
      }
    }
    for (const StateTensor& state : run.replicas().strategy(0).state()) {
      if (state.agreement == Agreement::kLocal) continue;
      EXPECT_THAT(run.state(1, state.name), testing::ElementsAreArray(state.values));
    }
  }
}

TEST(Distro, ThreadsOfAWorkerDoNotChangeItsBits) {
  for (const char* values : {"1bit", "int8"}) {
    const auto fields = fmt::format("values = \"{}\"\nfeedback = true\n", values);
    DistroRunOptions options = small_run(2, fields);
    DistroRun one(options);
    options.threads = 3;
    DistroRun three(options);
    EXPECT_EQ(params_after(one, 5), params_after(three, 5));
    EXPECT_THAT(one.state(0, "distro.momentum"),
                testing::ElementsAreArray(three.state(0, "distro.momentum")));
  }
}

TEST(Distro, InstructionSetDoesNotChangeTheBits) {
  DistroRun reference(small_run(2));
  const Values expected = params_after(reference, 4);
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    DistroRun run(small_run(2));
    EXPECT_EQ(params_after(run, 4), expected) << hwy::TargetName(targets & -targets);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Distro, OneWorkerTrainsAlone) {
  DistroRun run(small_run(1));
  const Values before(run.params(0).begin(), run.params(0).end());
  EXPECT_NE(params_after(run, 3), before);
  EXPECT_EQ(run.replicas().peers(0).traffic().sent, 0u);
}

TEST(Distro, RoundGoesOnWithoutAMissingMember) {
  DistroRunOptions options = small_run(3, "values = \"fp32\"\n");
  options.missing = [](uint64_t step) { return step == 1 ? std::set<int>{2} : std::set<int>{}; };
  DistroRun run(options);
  const Values with_loss = params_after(run, 3);
  EXPECT_THAT(run.params(2), testing::ElementsAreArray(with_loss));
  options.missing = {};
  DistroRun whole(options);
  EXPECT_NE(params_after(whole, 3), with_loss);
}

TEST(Distro, WeightsOfWorkersScaleTheirGradients) {
  DistroRunOptions options = small_run(1, "values = \"fp32\"\n[optim]\nclip = 0\n");
  DistroRun light(options);
  options.weights = {0.25f};
  DistroRun heavy(options);
  ASSERT_TRUE(light.step(0.01f));
  ASSERT_TRUE(heavy.step(0.01f));
  const auto full = light.state(0, "distro.momentum");
  const auto quarter = heavy.state(0, "distro.momentum");
  for (size_t i = 0; i < full.size(); ++i) ASSERT_EQ(quarter[i], 0.25f * full[i]);
}

TEST(Distro, UnseenRowsOfAnEmbeddingStayWhereTheyAre) {
  DistroRunOptions options = small_run(2, "[optim]\nweight_decay = 0\n");
  options.gradient_scales[0] = 0;
  DistroRun run(options);
  const Values before(run.params(0, 0).begin(), run.params(0, 0).end());
  params_after(run, 3);
  EXPECT_THAT(run.params(0, 0), testing::ElementsAreArray(before));
}

TEST(Distro, FeedbackKeepsTheErrorOfCodingInTheMomentum) {
  DistroRun with(small_run(1, "feedback = true\n"));
  DistroRun without(small_run(1));
  ASSERT_TRUE(with.step(0.01f));
  ASSERT_TRUE(without.step(0.01f));
  const auto exact = without.state(0, "distro.momentum");
  const auto kept = with.state(0, "distro.momentum");
  int differing = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i] == kept[i]) continue;
    ++differing;
    EXPECT_EQ(exact[i], 0.0f);
  }
  EXPECT_GT(differing, 30);
}

TEST(Distro, BytesStayBelowThePredictionAndNearIt) {
  for (const char* values : {"fp32", "bf16", "int8", "1bit"}) {
    DistroRunOptions options = small_run(3, fmt::format("values = \"{}\"\n", values));
    // Large enough for headers not to matter.
    options.tensors = {{"wide", {256, 1024}, TensorRole::kMatrix, 0}};
    options.gradient_scales = {1};
    DistroRun run(options);
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(run.step(0.01f));
    const method::Traffic predicted =
        method::find_method("distro").traffic(run.recipe(), options.tensors, 3);
    const auto measured = run.replicas().peers(1).traffic();
    EXPECT_FALSE(predicted.exact);
    EXPECT_LE(static_cast<double>(measured.sent) / 4, predicted.sent_bytes) << values;
    EXPECT_LE(static_cast<double>(measured.received) / 4, predicted.received_bytes) << values;
    EXPECT_GE(static_cast<double>(measured.sent) / 4, 0.93 * predicted.sent_bytes) << values;
  }
}

TEST(Distro, DamagedPayloadIsAFailureThatNamesItsSender) {
  DistroRunOptions options = small_run(2);
  options.tamper = [](uint64_t, int worker, Bytes& payload) {
    if (worker == 1) payload[payload.size() / 2] ^= 4;
  };
  DistroRun run(options);
  const Values before(run.params(0).begin(), run.params(0).end());
  const auto done = run.step(0.01f);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::kCorruptPayload);
  EXPECT_THAT(done.error().message, testing::HasSubstr("member 1"));
  EXPECT_THAT(run.params(0), testing::ElementsAreArray(before));
}

TEST(Distro, PayloadOfAnotherRoundIsStale) {
  Bytes first;
  DistroRunOptions options = small_run(2);
  options.tamper = [&](uint64_t step, int worker, Bytes& payload) {
    if (worker != 1) return;
    if (step == 0) first = payload;
    payload = first;
  };
  DistroRun run(options);
  ASSERT_TRUE(run.step(0.01f));
  const auto done = run.step(0.01f);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::kStaleRound);
}

TEST(Distro, GradientThatIsNotFiniteIsAnErrorAndChangesNothing) {
  DistroRunOptions options = small_run(1);
  const DistroRun run(options);
  const tensor::Layout layout(kTensors);
  tensor::Arena params(layout), gradients(layout);
  ThreadPool threads(1);
  SlotHold slots(nullptr, 1);
  const auto peers = transport::make_local_peers(1);
  const auto strategy =
      make_distro({run.recipe(), params, gradients, threads, slots, *peers.front()});
  Round round;
  round.roster = {{0, {}, 1.0f}};
  round.learning_rate = 0.01f;
  gradients.tensor(1)[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)strategy->after_step(round), Error);
  EXPECT_THAT(params.all(), Each(0.0f));
  EXPECT_THAT(strategy->state().front().values, Each(0.0f));
}

}  // namespace
}  // namespace thinwire::sync
