// Ranks of a site that share an optimizer take the steps of one that is alone, with the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {
namespace {

config::Recipe recipe_with(const fs::path& folder, std::vector<std::string> fields) {
  fields.insert(fields.end(), {"model.layers=4", "train.workers=1"});
  config::Recipe recipe = tiny_recipe(folder, std::move(fields));
  recipe.model.vocab = 258;
  recipe.train.device = config::DeviceChoice::kCpu;
  if (recipe.train.precision == Precision::kAuto) recipe.train.precision = Precision::kFp32;
  return recipe;
}

// A site on threads, and its optimizer.
class Ranks {
 public:
  Ranks(const config::Recipe& recipe, int count)
      : layout_(method::tensors_of(recipe)),
        threads_(1),
        ranks_(transport::make_local_communicators(count)) {
    for (const auto& rank : std::span(ranks_).subspan(1)) {
      helpers_.emplace_back([&rank] { help_site(*rank); });
    }
    site_ = std::make_unique<Site>(*ranks_.front());
    site_->begin(recipe, nullptr);
    const method::SyncSpec spec = method::sync_spec(recipe, method::RunKind::kHosted);
    optimizer_ = site_->share_optimizer(spec.optim, layout_, threads_, recipe.run.dir);
    optimizer_->spread();
  }
  ~Ranks() {
    optimizer_.reset();
    site_.reset();
  }

  optim::SharedOptimizer& optimizer() { return *optimizer_; }
  Site& site() { return *site_; }
  uint64_t sent() const { return ranks_.front()->traffic().sent; }

 private:
  const tensor::Layout layout_;
  ThreadPool threads_;
  std::vector<std::unique_ptr<transport::Communicator>> ranks_;
  std::vector<std::jthread> helpers_;
  std::unique_ptr<Site> site_;
  std::unique_ptr<optim::SharedOptimizer> optimizer_;
};

class SharedSteps : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  SharedSteps()
      : recipe_(recipe_with(test_folder(), GetParam())),
        layout_(method::tensors_of(recipe_)),
        threads_(1),
        spec_(method::sync_spec(recipe_, method::RunKind::kHosted)),
        alone_(optim::make_optimizer(spec_.optim, layout_)),
        weights_(layout_, recipe_.train.weights),
        shared_weights_(layout_, recipe_.train.weights),
        grads_(layout_) {
    for (size_t i = 0; i < layout_.size(); ++i) {
      weights_.fill_tensor(i, [&](std::span<float> values) { draw(values, i); });
    }
    shared_weights_.assign(weights_);
  }

  static void draw(std::span<float> values, uint64_t stream) {
    Rng rng(9, stream);
    for (float& value : values) value = static_cast<float>(0.1 * rng.normal());
  }
  // The same step of both.
  void step(Ranks& ranks) {
    for (size_t i = 0; i < layout_.size(); ++i) draw(grads_.tensor(i), 1000 * (number_ + 1) + i);
    const optim::OptimizerStep step = {number_++, 0.01F};
    const auto scale = [](size_t tensor) { return tensor % 2 == 0 ? 1.0F : 0.5F; };
    alone_->step(weights_, grads_, step, scale, threads_);
    ranks.optimizer().step(shared_weights_, grads_, step, scale);
  }
  void expect_the_same_weights() const {
    EXPECT_TRUE(std::ranges::equal(shared_weights_.bytes(), weights_.bytes()));
  }
  void expect_the_same_state(Ranks& ranks) const {
    ranks.optimizer().collect();
    const auto alone = alone_->state(), shared = ranks.optimizer().state();
    ASSERT_EQ(shared.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(shared[i].name, alone[i].name);
      EXPECT_TRUE(std::ranges::equal(shared[i].bytes, alone[i].bytes)) << alone[i].name;
    }
  }
  // A new site, which continues with the state.
  void resume(Ranks& ranks) const {
    const auto alone = alone_->state(), shared = ranks.optimizer().state();
    for (size_t i = 0; i < alone.size(); ++i) {
      std::ranges::copy(alone[i].bytes, shared[i].bytes.begin());
    }
    ranks.optimizer().spread();
  }

  const config::Recipe recipe_;
  const tensor::Layout layout_;
  ThreadPool threads_;
  const method::SyncSpec spec_;
  const std::unique_ptr<optim::Optimizer> alone_;
  tensor::Arena weights_, shared_weights_, grads_;
  uint64_t number_ = 0;
};

TEST_P(SharedSteps, HasTheBitsOfOneThatIsAlone) {
  Ranks three(recipe_, 3);
  for (int i = 0; i < 3; ++i) step(three);
  expect_the_same_weights();
  expect_the_same_state(three);
  step(three);
  expect_the_same_state(three);
}

TEST_P(SharedSteps, ContinuesWithOtherRanks) {
  {
    Ranks three(recipe_, 3);
    for (int i = 0; i < 3; ++i) step(three);
  }
  Ranks two(recipe_, 2);
  resume(two);
  for (int i = 0; i < 3; ++i) step(two);
  expect_the_same_weights();
  expect_the_same_state(two);
}

TEST_P(SharedSteps, StartsAnewWhenItIsReset) {
  Ranks three(recipe_, 3);
  step(three);
  alone_->reset();
  three.optimizer().reset();
  step(three);
  expect_the_same_weights();
  expect_the_same_state(three);
}

TEST_P(SharedSteps, EachRankHoldsItsShareOfTheState) {
  constexpr int kRanks = 4;
  Ranks four(recipe_, kRanks);
  const std::span<const uint64_t> held = four.site().state_bytes();
  ASSERT_EQ(held.size(), size_t{kRanks});
  const method::SharedState predicted = method::shared_state(recipe_, layout_.specs(), kRanks);
  uint64_t all = 0;
  for (const uint64_t bytes : held) all += bytes;
  EXPECT_EQ(all, alone_->state_bytes());
  EXPECT_EQ(predicted.all, static_cast<double>(all));
  EXPECT_EQ(predicted.largest, static_cast<double>(std::ranges::max(held)));
  double of_a_tensor = 0;  // which is never divided
  for (size_t i = 0; i < layout_.size(); ++i) {
    const auto one = method::optimizer_bytes(recipe_, layout_.specs().subspan(i, 1));
    of_a_tensor = std::max(of_a_tensor, one);
  }
  EXPECT_LE(predicted.largest, std::max(of_a_tensor, 1.2 * predicted.all / kRanks));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SharedSteps,
    testing::Values(
        std::vector<std::string>{},
        std::vector<std::string>{"train.precision=bf16", "train.weights=bf16", "optim.state=bf16"},
        std::vector<std::string>{"optim.state=8bit"}, std::vector<std::string>{"optim.method=muon"},
        std::vector<std::string>{"optim.method=galore", "galore.rank=4", "galore.refresh=2"},
        std::vector<std::string>{"train.offload=true"}));

class SharedPlainSteps : public SharedSteps {};

// What a rank has computed itself is not sent to it.
TEST_P(SharedPlainSteps, SendGradientsOnlyWhereTheyHaveChanged) {
  Ranks two(recipe_, 2);
  const auto sent_by_step = [&] {
    const uint64_t before = two.sent();
    two.optimizer().step(shared_weights_, grads_, {number_++, 0.01F}, [](size_t) { return 1.0F; });
    return static_cast<double>(two.sent() - before);
  };
  const double weights = 4.0 * static_cast<double>(layout_.total());
  draw(grads_.all(), 1);
  sent_by_step();  // begins with all weights
  draw(grads_.all(), 2);
  const double with_gradients = sent_by_step(), without = sent_by_step();
  EXPECT_NEAR(without, weights / 2, weights / 10);
  EXPECT_NEAR(with_gradients, weights, weights / 10);
}

INSTANTIATE_TEST_SUITE_P(Plain, SharedPlainSteps, testing::Values(std::vector<std::string>{}));

}  // namespace
}  // namespace thinwire::train
