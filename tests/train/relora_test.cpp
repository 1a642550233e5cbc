#include "thinwire/train/relora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::train {
namespace {

using testing::Each;
using testing::ElementsAre;

config::Recipe relora_recipe() {
  return method::load_recipe(
      {}, std::vector<std::string>{"adapter.kind=relora", "relora.merge_every=5", "relora.rewarm=2",
                                   "relora.reset=0.9", "train.steps=20", "model.vocab=50",
                                   "model.hidden=32", "model.layers=2", "model.heads=2",
                                   "adapter.rank=4", "adapter.whole=[\"*norm\"]"});
}

void fill(std::span<float> values, uint64_t stream) {
  Rng rng(3, stream);
  for (float& value : values) value = static_cast<float>(rng.normal());
}

class ReloraMerge : public testing::Test {
 protected:
  ReloraMerge() {
    fill(params_.all(), 1);
    fill(moments_, 2);
  }

  config::Recipe recipe_ = relora_recipe();
  tensor::Layout layout_{method::tensors_of(recipe_)};
  StartingWeights start_ = starting_weights(recipe_, nullptr, layout_, events::print_message);
  tensor::Arena params_{layout_};
  std::vector<float> moments_ = std::vector<float>(static_cast<size_t>(layout_.total()));
  ThreadPool threads_{2};
};

TEST_F(ReloraMerge, HappensOnlyWhenItIsDue) {
  Relora relora(recipe_, std::make_shared<FrozenWeights>(*start_.frozen), params_);
  const std::vector<float> before(params_.all().begin(), params_.all().end());
  EXPECT_FALSE(relora.after_step(4, {}, threads_));
  EXPECT_FALSE(relora.after_step(20, {}, threads_));
  EXPECT_TRUE(std::ranges::equal(std::as_const(params_).all(), before));
}

TEST_F(ReloraMerge, KeepsTheWeightsThatTheModelComputesWith) {
  Relora relora(recipe_, std::make_shared<FrozenWeights>(*start_.frozen), params_);
  tensor::Arena expected(start_.frozen->layout);
  checkpoint::copy_common(start_.frozen->values, expected);
  checkpoint::add_adapter(params_, recipe_.adapter, expected, threads_);
  ASSERT_TRUE(relora.after_step(5, {}, threads_));
  // Now the factors add nothing, since all B are zero.
  tensor::Arena now(start_.frozen->layout);
  checkpoint::copy_common(relora.base(), now);
  checkpoint::add_adapter(params_, recipe_.adapter, now, threads_);
  EXPECT_TRUE(std::ranges::equal(std::as_const(now).all(), std::as_const(expected).all()));
  EXPECT_FALSE(std::ranges::equal(std::as_const(now).all(), start_.frozen->values.all()));
}

TEST_F(ReloraMerge, DrawsNewFactorsAndLeavesWholeTensorsAlone) {
  Relora relora(recipe_, std::make_shared<FrozenWeights>(*start_.frozen), params_);
  const size_t a = 1, b = 2, norm = layout_.find("model.norm.weight");
  const std::vector<float> scales(params_.tensor(norm).begin(), params_.tensor(norm).end());
  ASSERT_TRUE(relora.after_step(5, {}, threads_));
  const std::vector<float> first(params_.tensor(a).begin(), params_.tensor(a).end());
  EXPECT_THAT(params_.tensor(b), Each(0.0f));
  EXPECT_TRUE(std::ranges::equal(std::as_const(params_).tensor(norm), scales));
  EXPECT_LE(std::abs(*std::ranges::max_element(first)), 1 / std::sqrt(32.0f));
  ASSERT_TRUE(relora.after_step(10, {}, threads_));
  EXPECT_FALSE(std::ranges::equal(std::as_const(params_).tensor(a), first));
}

TEST_F(ReloraMerge, ResetsMostOfTheStateOfFactorsOnly) {
  Relora relora(recipe_, std::make_shared<FrozenWeights>(*start_.frozen), params_);
  const std::vector<float> before = moments_;
  const std::vector<StateTensor> state = {{"adamw.m", moments_}};
  ASSERT_TRUE(relora.after_step(5, state, threads_));
  for (size_t i = 0; i < layout_.size(); ++i) {
    const auto at = static_cast<size_t>(layout_.offset(i));
    const auto count = static_cast<size_t>(layout_.specs()[i].count());
    const auto now = std::span(moments_).subspan(at, count);
    const auto kept = count - static_cast<size_t>(std::ranges::count(now, 0.0f));
    if (method::is_factor(layout_.specs()[i])) {
      EXPECT_NEAR(static_cast<double>(kept), 0.1 * static_cast<double>(count), 1);
    } else {
      EXPECT_TRUE(std::ranges::equal(now, std::span(before).subspan(at, count)));
    }
  }
}

TEST(ResetSmallest, KeepsWhatIsAboveTheQuantile) {
  std::vector<float> values = {1, -5, 3, -2, 4};
  reset_smallest(values, 0.5);
  EXPECT_THAT(values, ElementsAre(0, -5, 0, 0, 4));
  reset_smallest(values, 0);
  EXPECT_THAT(values, ElementsAre(0, -5, 0, 0, 4));
  reset_smallest(values, 1);
  EXPECT_THAT(values, Each(0.0f));
}

}  // namespace
}  // namespace thinwire::train
