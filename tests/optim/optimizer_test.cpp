#include "thinwire/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"

namespace thinwire::optim {
namespace {

std::vector<TensorSpec> specs() {
  return {{"a", {33, 65}, TensorRole::kMatrix}, {"norm", {77}, TensorRole::kNorm}};
}

void fill(tensor::Arena& arena, uint64_t seed) {
  Rng rng(seed, 0);
  for (size_t t = 0; t < arena.layout().size(); ++t) {
    for (float& value : arena.tensor(t)) value = static_cast<float>(rng.normal());
  }
}

TEST(Optimizers, AreTheChoicesOfTheRecipe) {
  config::OptimSection section;
  config::Fields fields;
  section.describe(fields);
  config::StringList names;
  for (const OptimizerEntry& entry : all_optimizers()) names.emplace_back(entry.name);
  EXPECT_EQ(fields.all().front().name, "method");
  EXPECT_EQ(fields.all().front().choices, names);
}

TEST(GlobalNorm, IsTheRootOfTheSumOfSquares) {
  std::vector<float> values(100'003);
  Rng rng(1, 2);
  double expected = 0;
  for (float& value : values) {
    value = static_cast<float>(rng.normal());
    expected += double(value) * value;
  }
  ThreadPool one(1);
  EXPECT_NEAR(global_norm(values, one), std::sqrt(expected), 1e-9);
}

TEST(GlobalNorm, DoesNotDependOnTheNumberOfThreads) {
  std::vector<float> values(50'021);
  Rng rng(3, 4);
  for (float& value : values) value = static_cast<float>(rng.normal());
  ThreadPool one(1);
  ThreadPool three(3);
  const double with_one = global_norm(values, one);
  const double with_three = global_norm(values, three);
  EXPECT_EQ(std::memcmp(&with_one, &with_three, sizeof(double)), 0);
}

TEST(GlobalNorm, SeesNotANumber) {
  std::vector<float> values(1000, 1.0f);
  values[777] = NAN;
  ThreadPool one(1);
  EXPECT_TRUE(std::isnan(global_norm(values, one)));
}

TEST(ClipScale, LeavesSmallGradientsAloneAndZeroMeansNever) {
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0f);
  EXPECT_NEAR(clip_scale(4.0, 1.0), 0.25f, 1e-6);
  EXPECT_EQ(clip_scale(1e9, 0.0), 1.0f);
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  config::OptimSection options;
  options.weight_decay = 0;
  options.eps = 1e-15;
  const tensor::Layout layout(specs());
  tensor::Arena params(layout);
  tensor::Arena grads(layout);
  fill(grads, 5);
  ThreadPool threads(1);
  make_optimizer(options, layout)->step(params, grads, 1.0f, 0.01f, 0, threads);
  for (size_t t = 0; t < layout.size(); ++t) {
    for (size_t i = 0; i < params.tensor(t).size(); ++i) {
      const float sign = grads.tensor(t)[i] > 0 ? -1.0f : 1.0f;
      ASSERT_NEAR(params.tensor(t)[i], sign * 0.01f, 1e-6f);
    }
  }
}

TEST(AdamW, DecaysMatricesButNotNorms) {
  config::OptimSection options;
  options.weight_decay = 0.5;
  const tensor::Layout layout(specs());
  tensor::Arena params(layout);
  const tensor::Arena grads(layout);  // zero
  for (size_t t = 0; t < layout.size(); ++t) {
    for (float& value : params.tensor(t)) value = 1.0f;
  }
  ThreadPool threads(1);
  make_optimizer(options, layout)->step(params, grads, 1.0f, 0.1f, 0, threads);
  EXPECT_FLOAT_EQ(params.tensor(0)[0], 0.95f);
  EXPECT_FLOAT_EQ(params.tensor(1)[0], 1.0f);
}

TEST(AdamW, SameBitsWithAnyNumberOfThreads) {
  const config::OptimSection options;
  const tensor::Layout layout(specs());
  std::vector<tensor::Arena> results;
  for (const int count : {1, 2, 3}) {
    ThreadPool threads(count);
    tensor::Arena params(layout);
    tensor::Arena grads(layout);
    fill(params, 1);
    const auto optimizer = make_optimizer(options, layout);
    for (uint64_t step = 0; step < 5; ++step) {
      fill(grads, 10 + step);
      optimizer->step(params, grads, 0.7f, 0.01f, step, threads);
    }
    results.push_back(std::move(params));
  }
  for (const tensor::Arena& other : results) {
    EXPECT_EQ(std::memcmp(results[0].all().data(), other.all().data(), other.all().size_bytes()),
              0);
  }
}

TEST(AdamW, RoundsTheParametersIntoACopyThatGoesOutOfDateWithTheNextWriting) {
  const config::OptimSection options;
  const tensor::Layout layout(specs());
  ThreadPool threads(2);
  tensor::Arena params(layout), grads(layout);
  fill(params, 1);
  fill(grads, 2);
  std::vector<Bf16> copy(static_cast<size_t>(layout.total()));
  params.keep_rounded(copy.data());
  EXPECT_FALSE(params.is_current(copy.data()));
  make_optimizer(options, layout)->step(params, grads, 1.0f, 0.01f, 0, threads);
  EXPECT_TRUE(params.is_current(copy.data()));
  const std::span<const float> now = std::as_const(params).all();
  for (size_t i = 0; i < now.size(); ++i) ASSERT_EQ(copy[i].bits, to_bf16(now[i]).bits) << i;
  EXPECT_TRUE(params.is_current(copy.data()));
  params.tensor(0)[0] = 1;
  EXPECT_FALSE(params.is_current(copy.data()));
}

TEST(Optimizers, UnknownNameListsTheKnownOnes) {
  config::OptimSection options;
  options.method = "adamax";
  const tensor::Layout layout(specs());
  try {
    make_optimizer(options, layout);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("adamw"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace thinwire::optim
