// Sums that begin during the backward pass have the bits of one that begins after it.
#include "thinwire/methods/allreduce/gradient_average.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/errors.h"
#include "tests/sync/replicas.h"
#include "tests/transport/passing_communicator.h"

namespace thinwire::sync {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr uint64_t kSteps = 6;

// The norm behind the embedding is of the head's group, which has two ranges.
std::vector<TensorSpec> specs() {
  return {{"embed", {12, 8}, TensorRole::kEmbedding}, {"norm", {8}, TensorRole::kNorm},
          {"norm.0", {8}, TensorRole::kNorm, 0},      {"w.0", {7, 8}, TensorRole::kMatrix, 0},
          {"w.1", {9, 8}, TensorRole::kMatrix, 1},    {"head", {12, 8}, TensorRole::kHead}};
}

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.push_back(fmt::format("train.steps={}", kSteps));
  return method::load_recipe({}, fields);
}

std::unique_ptr<Replicas> trained(const std::vector<std::string>& fields, int workers,
                                  const std::vector<float>& weights = {}) {
  auto replicas = std::make_unique<Replicas>(recipe_with(fields), specs(), workers);
  for (int worker = 0; worker < workers; ++worker) {
    random_gradients(0, 1000, replicas->params(worker));
  }
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto fill = [&](int worker, tensor::Arena& out) { random_gradients(worker, step, out); };
    for (const auto& report : replicas->step(step, 1e-2f, fill, weights)) EXPECT_TRUE(report);
  }
  return replicas;
}

void expect_same_bits(const std::vector<std::string>& fields, int workers,
                      const std::vector<float>& weights = {}) {
  std::vector<std::string> whole = fields;
  whole.emplace_back("allreduce.hide=false");
  const auto hidden = trained(fields, workers, weights);
  const auto at_once = trained(whole, workers, weights);
  for (int worker = 0; worker < workers; ++worker) {
    EXPECT_THAT(hidden->params(worker).all(), ElementsAreArray(at_once->params(worker).all()))
        << fmt::format("{} of {}, {}", worker, workers, fmt::join(fields, " "));
  }
}

TEST(GradientAverage, HasTheBitsOfASingleSum) {
  for (int workers = 1; workers <= 4; ++workers) {
    for (const char* wire : {"allreduce.wire=bf16", "allreduce.wire=fp32", "allreduce.wire=fp8"}) {
      expect_same_bits({wire}, workers);
      expect_same_bits({wire, "optim.method=muon", "optim.clip_by=previous"}, workers);
    }
  }
  expect_same_bits({"train.workers=4", "sync.method=diloco", "diloco.sync_every=3",
                    "sync.within=allreduce", "sync.clusters=2"},
                   4);
  expect_same_bits({"sync.aggregate=trimmed_mean"}, 4);
}

TEST(GradientAverage, OfUnequalMembersAndOneThatFollowsHasTheSameBits) {
  expect_same_bits({}, 3, {0.5f, 0, 0.5f});
  expect_same_bits({}, 3, {0.2f, 0.7f, 0.1f});
}

// Notes when sums begin and are waited for.
class Listening final : public transport::PassingCommunicator {
 public:
  Listening(std::unique_ptr<transport::Communicator> to, std::vector<std::string>& said)
      : PassingCommunicator(std::move(to)), said_(said) {}

  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    said_.push_back(fmt::format("start {} of {}", key.fragment, values.size()));
    PassingCommunicator::start_all_reduce(key, values, codec, from);
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    said_.push_back(fmt::format("wait {}", key.fragment));
    return PassingCommunicator::wait_all_reduce(key, out, timeout_s);
  }

 private:
  std::vector<std::string>& said_;
};

// Two members that average equally, and what each asks of its communicator.
class GradientAverageOfTwo : public testing::Test {
 protected:
  GradientAverageOfTwo() {
    round_.run = 1;
    round_.learning_rate = 0.01f;
    round_.roster = {{0, {}, 0.5f, 0}, {1, {}, 0.5f, 0}};
  }

  std::vector<std::string> said_[2];
  int members_ = 0;
  Replicas replicas_{recipe_with({}), specs(), 2, [this](auto to) {
                       return std::make_unique<Listening>(std::move(to), said_[members_++]);
                     }};
  Round round_;
};

// One member of two, of which the other has always finished its part.
TEST_F(GradientAverageOfTwo, BeginsAGroupWhenItIsCompleteAndWaitsAtTheEnd) {
  const auto groups = gradient_groups(specs());
  for (const int worker : {0, 1}) {
    replicas_.strategy(worker).restored({});
    for (const GradientGroup& group : groups) {
      replicas_.strategy(worker).gradients_ready(round_, group.number);
      if (group.number != 1) continue;
      EXPECT_EQ(said_[worker].size(), 3) << "two ranges and a block";
    }
    EXPECT_THAT(said_[worker],
                testing::ElementsAre("start 0 of 16", "start 1 of 96", "start 2 of 80",
                                     "start 3 of 80", "start 4 of 96"));
    said_[worker].clear();
  }
  for (const int worker : {0, 1}) {
    EXPECT_TRUE(replicas_.strategy(worker).after_step(round_));
    EXPECT_THAT(said_[worker],
                testing::ElementsAre("wait 0", "wait 1", "wait 2", "wait 3", "wait 4"));
  }
}

TEST_F(GradientAverageOfTwo, WithAGradientThatIsNotFiniteEndsTheRunOnEveryMember) {
  round_.step = 4;
  random_gradients(0, 1000, replicas_.params(0));
  const std::vector<float> before(replicas_.params(0).all().begin(),
                                  replicas_.params(0).all().end());
  replicas_.gradients(1).tensor(4)[3] = std::numeric_limits<float>::infinity();
  for (const int worker : {0, 1}) {
    for (const GradientGroup& group : gradient_groups(specs())) {
      replicas_.strategy(worker).gradients_ready(round_, group.number);
    }
  }
  for (const int worker : {0, 1}) {
    EXPECT_THAT(tests::error_of([&] { (void)replicas_.strategy(worker).after_step(round_); }),
                HasSubstr(fmt::format("step 5: the gradient norm is inf on worker {}", worker)));
  }
  EXPECT_THAT(replicas_.params(0).all(), ElementsAreArray(before));
}

}  // namespace
}  // namespace thinwire::sync
