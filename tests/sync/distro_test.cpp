#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "tests/sync/hashed_run.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

using testing::Each;
using Values = std::vector<float>;

const std::vector<TensorSpec> kTensors = {{"embedding", {96, 64}, TensorRole::kEmbedding},
                                          {"matrix", {64, 86}, TensorRole::kMatrix, 0},
                                          {"norm", {64}, TensorRole::kNorm, 0},
                                          {"prime", {131}, TensorRole::kNorm}};

HashedRunOptions small_run(int workers, const std::string& fields = "") {
  HashedRunOptions options;
  options.recipe = "[sync]\nmethod = \"distro\"\n[distro]\nchunk = 32\nk = 16\n" + fields;
  options.tensors = kTensors;
  options.gradient_scales = {0.5f, 0.125f, 1, 0.25f};
  options.workers = workers;
  return options;
}

Values params_after(HashedRun& run, int steps) {
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(run.step(0.01f));
  return {run.params(0).begin(), run.params(0).end()};
}

class ReplicasOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Distro, ReplicasOf, testing::Values(2, 3, 5, 8, 16, 32));

TEST_P(ReplicasOf, AgreeBitForBitAfterEveryStep) {
  for (const char* update : {"sign", "adamw", "sgd", "muon"}) {
    HashedRun run(small_run(GetParam(), fmt::format("update = \"{}\"\n", update)));
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

// Lets workers send in a different order every round.
class Shuffled {
 public:
  explicit Shuffled(int workers) : workers_(workers) {}

  void await_turn(uint64_t round, int worker) {
    // A permutation of the workers, because 7 is coprime to their number.
    const auto turn = (7 * static_cast<uint64_t>(worker) + 3 * round) % uint64_t(workers_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sent_ == round * uint64_t(workers_) + turn; });
    ++sent_;
    changed_.notify_all();
  }

 private:
  int workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t sent_ = 0;
};

TEST(Distro, OrderInWhichPayloadsAreSentDoesNotChangeTheBits) {
  for (const int workers : {3, 16}) {
    HashedRunOptions options = small_run(workers);
    HashedRun unordered(options);
    Shuffled order(workers);
    options.tamper = [&](uint64_t round, int worker, Bytes&) { order.await_turn(round, worker); };
    HashedRun shuffled(options);
    const Values expected = params_after(unordered, 4);
    EXPECT_EQ(params_after(shuffled, 4), expected);
    EXPECT_THAT(shuffled.params(workers - 1), testing::ElementsAreArray(expected));
  }
}

TEST(Distro, StatelessClientOfOneStepIsTheStatefulOneWithoutMemory) {
  // A rate that is a power of two goes through the transform without rounding.
  const std::string plain = "[optim]\nclip = 0\n";
  HashedRun stateless(small_run(3, "client = \"stateless\"\n" + plain));
  HashedRun forgetful(small_run(3, "decay = 0\n" + plain));
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(stateless.step(0x1p-6f));
    ASSERT_TRUE(forgetful.step(0x1p-6f));
    EXPECT_THAT(stateless.params(0), testing::ElementsAreArray(forgetful.params(0)));
  }
}

TEST(Distro, ThreadsOfAWorkerDoNotChangeItsBits) {
  for (const char* values : {"1bit", "int8"}) {
    const auto fields = fmt::format("values = \"{}\"\nfeedback = true\n", values);
    HashedRunOptions options = small_run(2, fields);
    HashedRun one(options);
    options.threads = 3;
    HashedRun three(options);
    EXPECT_EQ(params_after(one, 5), params_after(three, 5));
    EXPECT_THAT(one.state(0, "distro.momentum"),
                testing::ElementsAreArray(three.state(0, "distro.momentum")));
  }
}

TEST(Distro, InstructionSetDoesNotChangeTheBits) {
  HashedRun reference(small_run(2));
  const Values expected = params_after(reference, 4);
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    HashedRun run(small_run(2));
    EXPECT_EQ(params_after(run, 4), expected) << hwy::TargetName(targets & -targets);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Distro, OneWorkerTrainsAlone) {
  HashedRun run(small_run(1));
  const Values before(run.params(0).begin(), run.params(0).end());
  EXPECT_NE(params_after(run, 3), before);
  EXPECT_EQ(run.replicas().communicator(0).traffic().sent, 0u);
}

TEST(Distro, RoundGoesOnWithoutAMissingMember) {
  HashedRunOptions options = small_run(3, "values = \"fp32\"\n");
  options.missing = [](uint64_t step) { return step == 1 ? std::set<int>{2} : std::set<int>{}; };
  HashedRun run(options);
  const Values with_loss = params_after(run, 3);
  EXPECT_THAT(run.params(2), testing::ElementsAreArray(with_loss));
  options.missing = {};
  HashedRun whole(options);
  EXPECT_NE(params_after(whole, 3), with_loss);
}

// A payload that the commit leaves out has moved nobody's weights.
TEST(Distro, WhatACommitLeavesOutGoesBackIntoTheMomentum) {
  HashedRunOptions options =
      small_run(2, "values = \"fp32\"\ntransform = \"none\"\n[optim]\nclip = 0\n");
  options.missing = [](uint64_t round) { return round == 0 ? std::set<int>{1} : std::set<int>{}; };
  HashedRun run(options);
  ASSERT_TRUE(run.step(0.5f));
  const auto left_at_zero = [&](int worker) {
    return std::ranges::count(run.state(worker, "distro.momentum"), 0.0f);
  };
  constexpr ptrdiff_t kGap = 144 - 131;  // behind the tensor of 131 values
  EXPECT_GT(left_at_zero(0), kGap + 100);
  EXPECT_EQ(left_at_zero(1), kGap);
}

TEST(Distro, WeightsOfWorkersScaleTheirGradients) {
  HashedRunOptions options = small_run(1, "values = \"fp32\"\n[optim]\nclip = 0\n");
  HashedRun light(options);
  options.weights = {0.25f};
  HashedRun heavy(options);
  ASSERT_TRUE(light.step(0.01f));
  ASSERT_TRUE(heavy.step(0.01f));
  const auto full = light.state(0, "distro.momentum");
  const auto quarter = heavy.state(0, "distro.momentum");
  for (size_t i = 0; i < full.size(); ++i) ASSERT_EQ(quarter[i], 0.25f * full[i]);
}

TEST(Distro, UnseenRowsOfAnEmbeddingStayWhereTheyAre) {
  HashedRunOptions options = small_run(2, "[optim]\nweight_decay = 0\n");
  options.gradient_scales[0] = 0;
  HashedRun run(options);
  const Values before(run.params(0, 0).begin(), run.params(0, 0).end());
  params_after(run, 3);
  EXPECT_THAT(run.params(0, 0), testing::ElementsAreArray(before));
}

// One worker with a gradient of its own making.
class LoneWorker {
 public:
  explicit LoneWorker(const std::string& fields)
      : run_(small_run(1, fields)),
        strategy_(make_strategy({params, gradients, threads_, permits_, *communicators_[0],
                                 method::sync_spec(run_.recipe())})) {}

  Result<StepReport> step(uint64_t number) { return strategy_->after_step(round(number)); }
  Strategy& strategy() { return *strategy_; }

  static Round round(uint64_t number) {
    Round round;
    round.run = 1;
    round.number = round.step = number;
    round.learning_rate = round.round_rate = 0.01f;
    round.closes = true;
    round.roster = {{0, {}, 1.0f}};
    return round;
  }

 private:
  HashedRun run_;
  tensor::Layout layout_{kTensors};
  ThreadPool threads_{1};
  PermitHold permits_{nullptr, 1};
  std::vector<std::unique_ptr<transport::Communicator>> communicators_ =
      transport::make_local_communicators(1);

 public:
  tensor::Arena params{layout_};
  tensor::Arena gradients{layout_};

 private:
  std::unique_ptr<Strategy> strategy_;
};

TEST(Distro, ConstantGradientMovesAllWeightsAlikeAndSendsLittle) {
  LoneWorker worker("overlap = 1\n[optim]\nweight_decay = 0\nclip = 0\n");
  std::ranges::fill(worker.gradients.tensor(0), 0.5f);
  ASSERT_TRUE(worker.step(0));
  ASSERT_TRUE(worker.step(1));
  EXPECT_THAT(worker.params.tensor(0), Each(-0.01f));
  for (const size_t tensor : {1, 2, 3}) EXPECT_THAT(worker.params.tensor(tensor), Each(0.0f));
  // One slot of each of 6 tiles, none of the others: otherwise only tables and scales.
  EXPECT_LT(worker.strategy().in_flight().front().bytes->size(), 110u);
}

TEST(Distro, PayloadUnderWayThatACheckpointSpoiledIsRefused) {
  LoneWorker before("overlap = 1\n");
  std::ranges::fill(before.gradients.all(), 0.5f);
  ASSERT_TRUE(before.step(0));
  const Bytes payload = *before.strategy().in_flight().front().bytes;
  ASSERT_GT(payload.size(), 40u);
  Bytes shorter(payload.begin(), payload.end() - 1);
  Bytes longer = payload;
  longer.push_back(0);
  Bytes flipped = payload;
  flipped.back() ^= 1;
  const auto resumed_with = [](const Bytes& bytes) {
    LoneWorker after("overlap = 1\n");
    *after.strategy().in_flight().front().bytes = bytes;
    after.strategy().restored({.next_step = 1, .round_at = LoneWorker::round});
    return after.step(1);
  };
  EXPECT_TRUE(resumed_with(payload));
  for (const Bytes& spoiled : {shorter, longer, flipped, Bytes(3)}) {
    const auto done = resumed_with(spoiled);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, FailureKind::kCorruptPayload);
    EXPECT_THAT(done.error().message, testing::HasSubstr("member 0"));
  }
}

TEST(Distro, FeedbackKeepsTheQuantizationErrorInTheMomentum) {
  HashedRun with(small_run(1, "feedback = true\n"));
  HashedRun without(small_run(1));
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
    HashedRunOptions options = small_run(3, fmt::format("values = \"{}\"\n", values));
    // Large enough for headers not to matter.
    options.tensors = {{"wide", {256, 1024}, TensorRole::kMatrix, 0}};
    options.gradient_scales = {1};
    HashedRun run(options);
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(run.step(0.01f));
    const method::Traffic predicted =
        method::find_method("distro").traffic(run.recipe(), options.tensors, 3);
    const auto measured = run.replicas().communicator(1).traffic();
    EXPECT_FALSE(predicted.exact);
    EXPECT_LE(static_cast<double>(measured.sent) / 4, predicted.sent_bytes) << values;
    EXPECT_LE(static_cast<double>(measured.received) / 4, predicted.received_bytes) << values;
    EXPECT_GE(static_cast<double>(measured.sent) / 4, 0.93 * predicted.sent_bytes) << values;
  }
}

TEST(Distro, DamagedPayloadIsAFailureThatNamesItsSender) {
  HashedRunOptions options = small_run(2);
  options.tamper = [](uint64_t, int worker, Bytes& payload) {
    if (worker == 1) payload[payload.size() / 2] ^= 4;
  };
  HashedRun run(options);
  const Values before(run.params(0).begin(), run.params(0).end());
  const auto done = run.step(0.01f);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::kCorruptPayload);
  EXPECT_THAT(done.error().message, testing::HasSubstr("member 1"));
  EXPECT_THAT(run.params(0), testing::ElementsAreArray(before));
}

TEST(Distro, PayloadOfAnotherRoundIsStale) {
  Bytes first;
  HashedRunOptions options = small_run(2);
  options.tamper = [&](uint64_t step, int worker, Bytes& payload) {
    if (worker != 1) return;
    if (step == 0) first = payload;
    payload = first;
  };
  HashedRun run(options);
  ASSERT_TRUE(run.step(0.01f));
  const auto done = run.step(0.01f);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::kStaleRound);
}

TEST(Distro, GradientThatIsNotFiniteIsAnErrorAndChangesNothing) {
  HashedRunOptions options = small_run(1);
  const HashedRun run(options);
  const tensor::Layout layout(kTensors);
  tensor::Arena params(layout), gradients(layout);
  ThreadPool threads(1);
  PermitHold permits(nullptr, 1);
  const auto communicators = transport::make_local_communicators(1);
  const auto strategy = make_strategy({params, gradients, threads, permits, *communicators.front(),
                                       method::sync_spec(run.recipe())});
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
