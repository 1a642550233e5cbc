// Explicit targets and weights, for our own backend and LibTorch's on the CPU.
#include "thinwire/model/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/base/error.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kRows = 2;
constexpr int64_t kSequence = 12;
constexpr int64_t kVocabulary = 67;

class Weighted : public testing::TestWithParam<config::DeviceChoice> {
 protected:
  Weighted() : tiny_(small_section(), 2) { init_parameters(tiny_.params, tiny_.model, 5); }

  void SetUp() override {
    const std::string absent = without_torch(
        [&] { model_ = tiny_.make(Precision::kFp32, kRows, kSequence, placement_of(GetParam())); });
    if (!absent.empty()) GTEST_SKIP() << absent;
  }

  Examples examples(std::span<const float> weights = {}) const {
    return {inputs_, targets_, weights, kRows};
  }
  std::vector<float> gradients(const Examples& examples, float scale = 0.5f) {
    tiny_.gradients.clear();
    model_->loss_and_gradients(examples, scale, tiny_.gradients);
    const auto all = std::as_const(tiny_.gradients).all();
    return {all.begin(), all.end()};
  }

  TinyModel tiny_;
  std::unique_ptr<Model> model_;
  std::vector<int32_t> inputs_ = random_tokens(kRows * kSequence, kVocabulary, 3);
  std::vector<int32_t> targets_ = random_tokens(kRows * kSequence, kVocabulary, 4);
};

TEST_P(Weighted, NextTokensAreATargetLikeAnyOther) {
  const std::vector<int32_t> tokens = random_tokens(kRows * (kSequence + 1), kVocabulary);
  for (int64_t r = 0; r < kRows; ++r) {
    const auto row = tokens.begin() + r * (kSequence + 1);
    std::copy(row, row + kSequence, inputs_.begin() + r * kSequence);
    std::copy(row + 1, row + 1 + kSequence, targets_.begin() + r * kSequence);
  }
  const double loss = model_->loss_and_gradients(tokens, kRows, 0.5f, tiny_.gradients);
  const auto all = std::as_const(tiny_.gradients).all();
  const std::vector<float> expected(all.begin(), all.end());
  EXPECT_EQ(model_->loss(examples()), loss);
  EXPECT_EQ(gradients(examples()), expected);
  const std::vector<float> ones(kRows * kSequence, 1.0f);
  EXPECT_EQ(model_->loss(examples(ones)), loss);
  EXPECT_EQ(gradients(examples(ones)), expected);
}

// Leaving out a position removes exactly its loss: losses of single positions add up to any
// subset's.
TEST_P(Weighted, AWeightOfZeroLeavesThePositionOut) {
  std::vector<float> weights(kRows * kSequence, 0.0f);
  double single = 0;
  std::vector<float> sum(static_cast<size_t>(tiny_.layout.total()));
  for (const size_t position : {0, 5, 17}) {
    std::vector<float> alone(weights.size(), 0.0f);
    alone[position] = weights[position] = 1;
    single += model_->loss(examples(alone));
    const std::vector<float> part = gradients(examples(alone));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  const double loss = model_->loss(examples(weights));
  EXPECT_NEAR(loss, single, 1e-6 * single);
  EXPECT_LT(relative_error(gradients(examples(weights)), sum), 1e-5);
  targets_[3] = -100;  // of weight 0, so it is ignored
  EXPECT_EQ(model_->loss(examples(weights)), loss);
}

// The first positions of a row do not see the last ones: leaving those out equals a shorter row.
TEST_P(Weighted, LeavingOutTheEndIsAShorterRow) {
  constexpr size_t kShort = 7;
  std::vector<float> weights(kRows * kSequence, 0.0f);
  std::vector<int32_t> inputs, targets;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kShort; ++t) {
      weights[r * kSequence + t] = 1;
      inputs.push_back(inputs_[r * kSequence + t]);
      targets.push_back(targets_[r * kSequence + t]);
    }
  }
  const Examples shorter{inputs, targets, {}, kRows};
  const double loss = model_->loss(shorter);
  EXPECT_NEAR(model_->loss(examples(weights)), loss, 1e-6 * loss);
  EXPECT_LT(relative_error(gradients(examples(weights)), gradients(shorter)), 1e-5);
}

TEST_P(Weighted, GradientsAreThoseOfTheWeightedSum) {
  std::vector<float> weights;
  for (int64_t i = 0; i < kRows * kSequence; ++i) weights.push_back(static_cast<float>(i % 4) / 2);
  const std::vector<float> got = gradients(examples(weights), 1.0f);
  constexpr float kStep = 1e-2f;
  for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.norm.weight",
                           "model.layers.1.self_attn.q_proj.weight", "lm_head.weight"}) {
    const size_t tensor = tiny_.layout.find(name);
    const size_t at = static_cast<size_t>(tiny_.layout.offset(tensor)) + 7;
    const auto loss_at = [&](float step) {
      tiny_.params.tensor(tensor)[7] += step;
      model_->refresh();
      return model_->loss(examples(weights));
    };
    const double above = loss_at(kStep);
    const double below = loss_at(-2 * kStep);
    loss_at(kStep);
    EXPECT_NEAR(got[at], (above - below) / (2 * kStep), 2e-2 * (1 + std::abs(got[at]))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Weighted,
                         testing::Values(config::DeviceChoice::kCpu,
                                         config::DeviceChoice::kTorchCpu),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Batch, RefusesWhatDoesNotFitTogether) {
  Batch batch(2, 4, 10);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6};
  const std::vector<float> weights = {1, 0, 1, 1, 1, 1};
  const auto all = std::span<const int32_t>(tokens);
  EXPECT_NO_THROW(batch.load({all, all, weights, 2}));
  EXPECT_EQ(batch.sequence(), 3);
  EXPECT_EQ(batch.targets()[1], 0);
  EXPECT_EQ(batch.weights()[2], 1);
  EXPECT_THAT(
      [&] {
        batch.load({all, all.first(5), {}, 2});
      },
      ThrowsMessage<Error>(HasSubstr("6 positions with 5 targets")));
  EXPECT_THAT(
      [&] {
        batch.load({all, all, {}, 1});
      },
      ThrowsMessage<Error>(HasSubstr("1 to 2 rows of 1 to 4")));
  const std::vector<int32_t> outside = {1, 2, 3, 4, 5, 10};
  EXPECT_THAT(
      [&] {
        batch.load({all, outside, weights, 2});
      },
      ThrowsMessage<Error>(HasSubstr("token 10")));
  const std::vector<float> infinite(6, std::numeric_limits<float>::infinity());
  EXPECT_THAT(
      [&] {
        batch.load({all, all, infinite, 2});
      },
      ThrowsMessage<Error>(HasSubstr("the weight of position 0 is inf")));
  EXPECT_NO_THROW(batch.load(all, 2));
  EXPECT_EQ(batch.weights(), nullptr);
}

}  // namespace
}  // namespace thinwire::model
