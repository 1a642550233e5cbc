#include "thinwire/optim/optimizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

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

method::OptimizerOptions options_of(const std::vector<std::string>& overrides = {}) {
  return method::optimizer_options(method::load_recipe({}, overrides));
}

TEST(Optimizers, HaveFactsAndArithmeticOfTheSameNames) {
  std::vector<std::string_view> facts, arithmetic;
  for (const method::OptimizerSpec* spec : method::all_optimizers()) facts.push_back(spec->name);
  for (const OptimizerEntry* entry : all_optimizers()) arithmetic.push_back(entry->name);
  EXPECT_EQ(arithmetic, facts);
}

struct Case {
  const method::OptimizerSpec* optimizer;
  StateFormat state, bases;
  std::vector<std::string> overrides() const {
    return {fmt::format("optim.method={}", optimizer->name),
            fmt::format("optim.state={}", name_of(state)),
            fmt::format("optim.bases={}", name_of(bases))};
  }
};

// Every optimizer in the table, in every format in which it keeps state, and bases in each.
std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const method::OptimizerSpec* optimizer : method::all_optimizers()) {
    constexpr StateFormat kF32 = StateFormat::kF32, k8Bit = StateFormat::k8Bit;
    for (const auto& [state, bases] : {std::pair(kF32, kF32),
                                       {StateFormat::kBf16, kF32},
                                       {k8Bit, kF32},
                                       {kF32, StateFormat::kBf16},
                                       {k8Bit, k8Bit}}) {
      const Case one = {optimizer, state, bases};
      try {
        options_of(one.overrides());
        cases.push_back(one);
      } catch (const UsageError&) {  // the optimizer has no bases
      }
    }
  }
  return cases;
}

class EveryOptimizer : public testing::TestWithParam<Case> {
 protected:
  method::OptimizerOptions options() const { return options_of(GetParam().overrides()); }

  // A matrix of the blocks with more rows than columns and one the other way round, and the rest.
  static std::vector<TensorSpec> model() {
    return {{"embed", {40, 9}, TensorRole::kEmbedding},
            {"wide", {33, 65}, TensorRole::kMatrix, 0},
            {"norm", {77}, TensorRole::kNorm, 0},
            {"tall", {150, 17}, TensorRole::kMatrix, 1},
            {"head", {140, 9}, TensorRole::kHead}};
  }

  const tensor::Layout layout_{model()};
};

INSTANTIATE_TEST_SUITE_P(Table, EveryOptimizer, testing::ValuesIn(every_case()),
                         [](const auto& one) {
                           return fmt::format("{}_{}_{}", one.param.optimizer->name,
                                              name_of(one.param.state), name_of(one.param.bases));
                         });

TEST_P(EveryOptimizer, HoldsTheStateThatItsFactsPredict) {
  const auto optimizer = make_optimizer(options(), layout_);
  size_t held = 0;
  for (const OptimizerState& part : optimizer->state()) held += part.bytes.size();
  const config::Recipe recipe = method::load_recipe({}, GetParam().overrides());
  EXPECT_EQ(static_cast<double>(held), method::optimizer_bytes(recipe, layout_.specs()));
}

// So that an update can happen as soon as a layer's gradient is complete.
TEST_P(EveryOptimizer, SameBitsInAnyOrderOfTensorsAndWithAnyNumberOfThreads) {
  std::vector<tensor::Arena> results;
  for (const int count : {1, 2, 3}) {
    ThreadPool threads(count);
    tensor::Arena params(layout_), grads(layout_);
    fill(params, 1);
    const auto optimizer = make_optimizer(options(), layout_);
    for (uint64_t step = 0; step < 5; ++step) {
      fill(grads, 10 + step);
      const OptimizerStep scalars = {step, 0.01f, 0.7f};
      if (count == 1) {
        optimizer->step(params, grads, scalars, threads);
        continue;
      }
      for (size_t tensor = layout_.size(); tensor-- > 0;) {
        optimizer->update({tensor, params.tensor(tensor), grads.tensor(tensor)}, scalars, threads);
      }
    }
    results.push_back(std::move(params));
  }
  for (const tensor::Arena& other : results) {
    EXPECT_EQ(std::memcmp(results[0].all().data(), other.all().data(), other.all().size_bytes()),
              0);
  }
}

// All rows at once or slab by slab, where an optimizer can.
TEST_P(EveryOptimizer, UpdatesRowsOfEmbeddingAndHeadWithTheSameBits) {
  if (!GetParam().optimizer->vocabulary_by_rows) GTEST_SKIP() << "takes whole tensors";
  const tensor::Layout layout(
      {{"embed", {300, 32}, TensorRole::kEmbedding}, {"head", {5000, 9}, TensorRole::kHead}});
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16}) {
    std::vector<std::vector<uint8_t>> results;
    for (const int64_t slabs : {1, 3}) {
      ThreadPool threads(2);
      tensor::Arena initial(layout), params(layout, format), grads(layout);
      fill(initial, 1);
      params.assign(initial);
      const auto optimizer = make_optimizer(options(), layout);
      for (uint64_t step = 0; step < 3; ++step) {
        fill(grads, 10 + step);
        for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
          const auto gradient = std::as_const(grads).tensor(tensor);
          const int64_t count = std::ssize(gradient), width = layout.specs()[tensor].shape[1];
          const int64_t slab = slab_rows(count / width, width, slabs) * width;
          for (int64_t begin = 0; begin < count; begin += slab) {
            const auto rows = gradient.subspan(static_cast<size_t>(begin),
                                               static_cast<size_t>(std::min(slab, count - begin)));
            optimizer->update(rows_update(params, tensor, begin, rows), {step, 0.01f, 0.7f},
                              threads);
          }
        }
      }
      const auto bytes = std::as_const(params).bytes();
      std::vector<uint8_t>& result = results.emplace_back(bytes.begin(), bytes.end());
      for (const OptimizerState& part : optimizer->state()) {
        result.insert(result.end(), part.bytes.begin(), part.bytes.end());
      }
    }
    EXPECT_EQ(results[1], results[0]);
  }
}

TEST(GlobalNorm, OfPartsHasTheSameBits) {
  ThreadPool threads(2);
  const tensor::Layout layout({{"head", {5000, 3}, TensorRole::kHead}});
  tensor::Arena grads(layout);
  fill(grads, 3);
  const std::span<const float> all = std::as_const(grads).tensor(0);
  double squares = 0;
  for (size_t begin = 0; begin < all.size(); begin += 2 * kNormBlock) {
    squares = add_squares(
        squares, all.subspan(begin, std::min<size_t>(2 * kNormBlock, all.size() - begin)), threads);
  }
  EXPECT_EQ(std::sqrt(squares), global_norm(all, threads));
}

TEST_P(EveryOptimizer, KeepsWeightsInBf16WithTheSameBitsInAnyOrder) {
  std::vector<tensor::Arena> results;
  for (const int count : {1, 3}) {
    ThreadPool threads(count);
    tensor::Arena initial(layout_), params(layout_, WeightFormat::kBf16), grads(layout_);
    fill(initial, 1);
    params.assign(initial);
    const auto optimizer = make_optimizer(options(), layout_);
    for (uint64_t step = 0; step < 5; ++step) {
      fill(grads, 10 + step);
      for (size_t i = 0; i < layout_.size(); ++i) {
        const size_t tensor = count == 1 ? i : layout_.size() - 1 - i;
        optimizer->update(tensor_update(params, tensor, grads.tensor(tensor)), {step, 0.01f, 0.7f},
                          threads);
      }
    }
    // Near those of fp32 weights, which 5 steps of 0.01 have moved.
    const auto exact = make_optimizer(options(), layout_);
    for (uint64_t step = 0; step < 5; ++step) {
      fill(grads, 10 + step);
      exact->step(initial, grads, {step, 0.01f, 0.7f}, threads);
    }
    std::vector<float> values(static_cast<size_t>(layout_.total()));
    params.read(0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], initial.all()[i], 0.04 + std::fabs(values[i]) / 64) << i;
    }
    results.push_back(std::move(params));
  }
  EXPECT_TRUE(std::ranges::equal(results[0].bytes(), results[1].bytes()));
}

TEST_P(EveryOptimizer, RoundsTheParametersIntoACopyThatGoesOutOfDateWithTheNextWriting) {
  ThreadPool threads(2);
  tensor::Arena params(layout_), grads(layout_);
  fill(params, 1);
  fill(grads, 2);
  std::vector<Bf16> copy(static_cast<size_t>(layout_.total()));
  std::vector<bool> kept(layout_.size(), true);
  kept[1] = false;
  params.keep_rounded(copy.data(), kept);
  EXPECT_FALSE(params.is_current(copy.data()));
  make_optimizer(options(), layout_)->step(params, grads, {0, 0.01f}, threads);
  EXPECT_TRUE(params.is_current(copy.data()));
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    const std::span<const float> now = std::as_const(params).tensor(tensor);
    const Bf16* const rounded = copy.data() + layout_.offset(tensor);
    for (size_t i = 0; i < now.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, to_bf16(kept[tensor] ? now[i] : 0).bits) << tensor << ' ' << i;
    }
  }
  EXPECT_TRUE(params.is_current(copy.data()));
  params.tensor(0)[0] = 1;
  EXPECT_FALSE(params.is_current(copy.data()));
}

TEST(Scale, StepsOfTheLastLayersRowsDoNotDependOnOtherRows) {
  constexpr int64_t kFew = 64, kColumns = 9;
  for (const char* state : {"optim.state=fp32", "optim.state=8bit"}) {
    std::vector<std::vector<float>> heads;
    for (const int64_t rows : {int64_t{140}, kFew}) {
      const tensor::Layout layout({{"head", {rows, kColumns}, TensorRole::kHead}});
      const auto optimizer = make_optimizer(options_of({"optim.method=scale", state}), layout);
      ThreadPool threads(2);
      tensor::Arena params(layout), grads(layout);
      for (uint64_t step = 0; step < 3; ++step) {
        fill(grads, step);
        optimizer->step(params, grads, {step, 0.01f}, threads);
      }
      const std::span<const float> first = params.tensor(0).first(kFew * kColumns);
      heads.emplace_back(first.begin(), first.end());
    }
    EXPECT_EQ(heads[0], heads[1]) << state;
    EXPECT_NE(heads[0][kFew * kColumns - 1], 0);
  }
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
  const auto options = options_of({"optim.weight_decay=0", "adamw.eps=1e-15"});
  const tensor::Layout layout(specs());
  tensor::Arena params(layout);
  tensor::Arena grads(layout);
  fill(grads, 5);
  ThreadPool threads(1);
  make_optimizer(options, layout)->step(params, grads, {0, 0.01f}, threads);
  for (size_t t = 0; t < layout.size(); ++t) {
    for (size_t i = 0; i < params.tensor(t).size(); ++i) {
      const float sign = grads.tensor(t)[i] > 0 ? -1.0f : 1.0f;
      ASSERT_NEAR(params.tensor(t)[i], sign * 0.01f, 1e-6f);
    }
  }
}

TEST(AdamW, DecaysMatricesButNotNorms) {
  const auto options = options_of({"optim.weight_decay=0.5"});
  const tensor::Layout layout(specs());
  tensor::Arena params(layout);
  const tensor::Arena grads(layout);  // zero
  for (size_t t = 0; t < layout.size(); ++t) {
    for (float& value : params.tensor(t)) value = 1.0f;
  }
  ThreadPool threads(1);
  make_optimizer(options, layout)->step(params, grads, {0, 0.1f}, threads);
  EXPECT_FLOAT_EQ(params.tensor(0)[0], 0.95f);
  EXPECT_FLOAT_EQ(params.tensor(1)[0], 1.0f);
}

}  // namespace
}  // namespace thinwire::optim
