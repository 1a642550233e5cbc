// The LibTorch backend against our own on the CPU and, if there is a GPU, on it against LibTorch's
// on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/projected.h"
#include "tests/model/streamed.h"
#include "tests/model/tiny_model.h"
#include "thinwire/base/error.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/registry.h"
#include "thinwire/model/torch_ops.h"

namespace thinwire::model {
namespace {

using config::DeviceChoice;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr tensor::DevicePlace kProcessor;
constexpr int64_t kRows = 4;
constexpr int64_t kSequence = 24;
constexpr float kScale = 1.0f / (kRows * kSequence);

// A random model and the LibTorch backend for it.
struct TorchModel {
  TorchModel(Precision precision, const method::ModelSpec& section,
             const tensor::DevicePlace& place = kProcessor, int64_t head_chunk = kHeadChunk)
      : tiny(section, 2) {
    init_parameters(tiny.params, section, 5);
    const ModelParts parts{tiny.model,   precision, tiny.layout, tiny.params,
                           tiny.threads, kRows,     kSequence,   place};
    backend = std::make_unique<GraphModel>(parts, make_torch_ops(parts, head_chunk), kLlama.graph);
  }
  double step(std::span<const int32_t> tokens, int64_t rows = kRows) {
    return backend->loss_and_gradients(tokens, rows, kScale, tiny.gradients);
  }
  std::vector<float> gradients() const {
    const auto all = std::as_const(tiny.gradients).all();
    return {all.begin(), all.end()};
  }

  TinyModel tiny;
  std::unique_ptr<Model> backend;
};

method::ModelSpec section(bool tied, int64_t kv_heads) {
  method::ModelSpec model = small_section();
  model.tied = tied;
  model.options<method::LlamaOptions>().kv_heads = kv_heads;
  return model;
}

// Largest error of a tensor's gradient, over all tensors.
double worst_error(TinyModel& got, TinyModel& expected) {
  double worst = 0;
  for (size_t i = 0; i < got.layout.size(); ++i) {
    worst = std::max(worst, relative_error(std::as_const(got.gradients).tensor(i),
                                           std::as_const(expected.gradients).tensor(i)));
  }
  return worst;
}

class LlamaTorch : public testing::TestWithParam<Precision> {
 protected:
  std::vector<int32_t> tokens_ = random_tokens(kRows * (kSequence + 1), 67);
};

TEST_P(LlamaTorch, LossAndGradientsEqualOurOwn) {
  const bool fp32 = GetParam() == Precision::kFp32;
  for (const auto& [tied, kv_heads] : {std::pair<bool, int64_t>{false, 4}, {true, 4}, {false, 2}}) {
    TorchModel torch(GetParam(), section(tied, kv_heads));
    TorchModel other(GetParam(), section(tied, kv_heads));
    const auto own = other.tiny.make(GetParam(), kRows, kSequence);
    const double expected = own->loss_and_gradients(tokens_, kRows, kScale, other.tiny.gradients);
    EXPECT_NEAR(torch.step(tokens_), expected, (fp32 ? 1e-5 : 5e-3) * expected);
    EXPECT_LT(worst_error(torch.tiny, other.tiny), fp32 ? 1e-5 : 5e-2)
        << "tied " << tied << ", kv_heads " << kv_heads;
  }
}

TEST_P(LlamaTorch, HeadInChunksIsTheSameHead) {
  TorchModel whole(GetParam(), section(false, 4));
  TorchModel chunked(GetParam(), section(false, 4), kProcessor, 7);
  const double loss = whole.step(tokens_);
  EXPECT_NEAR(chunked.step(tokens_), loss, 1e-6 * loss);
  EXPECT_LT(worst_error(chunked.tiny, whole.tiny), GetParam() == Precision::kFp32 ? 1e-5 : 2e-2);
}

TEST_P(LlamaTorch, RepeatsBitForBit) {
  TorchModel torch(GetParam(), section(false, 2));
  const double first = torch.step(tokens_);
  const std::vector<float> once = torch.gradients();
  torch.tiny.gradients.clear();
  EXPECT_EQ(torch.step(tokens_), first);
  EXPECT_EQ(torch.gradients(), once);
  EXPECT_EQ(torch.backend->loss(tokens_, kRows), first);
}

TEST_P(LlamaTorch, WhatIsComputedAgainHasTheSameBitsInLessMemory) {
  method::ModelSpec deep = section(false, 2);
  deep.layers = 3;
  TorchModel none(GetParam(), deep);
  const double loss = none.step(tokens_);
  size_t bytes = none.backend->activation_bytes();
  for (const auto recompute : {config::Recompute::kAttention, config::Recompute::kBlock}) {
    deep.recompute = recompute;
    TorchModel again(GetParam(), deep);
    EXPECT_EQ(again.step(tokens_), loss) << name_of(recompute);
    EXPECT_EQ(again.gradients(), none.gradients()) << name_of(recompute);
    EXPECT_LT(again.backend->activation_bytes(), bytes) << name_of(recompute);
    bytes = again.backend->activation_bytes();
  }
}

TEST_P(LlamaTorch, BlocksAreRecomputedFromRoundedInputs) {
  method::ModelSpec deep = section(false, 2);
  deep.layers = 3;
  deep.recompute = config::Recompute::kBlock;
  TorchModel exact(GetParam(), deep);
  const double loss = exact.step(tokens_);
  deep.block_inputs = Precision::kBf16;
  TorchModel rounded(GetParam(), deep);
  EXPECT_EQ(rounded.step(tokens_), loss);
  const double error = relative_norm_of_error(rounded.gradients(), exact.gradients());
  if (GetParam() == Precision::kFp32) {
    EXPECT_EQ(error, 0);
  } else {
    EXPECT_GT(error, 0);
    EXPECT_LT(error, 2e-2);  // as with our own backend
  }
}

TEST_P(LlamaTorch, MicrobatchesAddUpToTheBatch) {
  TorchModel whole(GetParam(), section(false, 4)), parts(GetParam(), section(false, 4));
  const double loss = whole.step(tokens_);
  const auto all = std::span<const int32_t>(tokens_);
  const double sum = parts.step(all.first(all.size() / 2), kRows / 2) +
                     parts.step(all.last(all.size() / 2), kRows / 2);
  EXPECT_NEAR(sum, loss, 1e-6 * loss);
  EXPECT_LT(worst_error(parts.tiny, whole.tiny), GetParam() == Precision::kFp32 ? 1e-5 : 2e-2);
}

TEST_P(LlamaTorch, RefreshTakesNewParametersOver) {
  TorchModel torch(GetParam(), section(false, 4));
  const double before = torch.backend->loss(tokens_, kRows);
  init_parameters(torch.tiny.params, torch.tiny.model, 6);
  torch.backend->refresh();
  EXPECT_NE(torch.backend->loss(tokens_, kRows), before);
  init_parameters(torch.tiny.params, torch.tiny.model, 5);
  torch.backend->refresh();
  EXPECT_EQ(torch.backend->loss(tokens_, kRows), before);
}

TEST_P(LlamaTorch, AGroupsGradientsAreCompleteWhenItEnds) {
  TorchModel torch(GetParam(), section(false, 4));
  std::vector<int> ended;
  std::vector<std::pair<size_t, std::vector<float>>> seen;
  tensor::WholeGradients sink(torch.tiny.gradients, [&](int group) {
    ended.push_back(group);
    for (size_t i = 0; i < torch.tiny.layout.size(); ++i) {
      if (gradient_group(torch.tiny.layout.specs()[i], 2) != group) continue;
      const auto values = torch.tiny.gradients.tensor(i);
      seen.emplace_back(i, std::vector<float>(values.begin(), values.end()));
    }
  });
  torch.backend->loss_and_gradients(tokens_, kRows, kScale, sink, {});
  EXPECT_THAT(ended, ElementsAre(2, 1, 0, kEmbeddingGroup));
  ASSERT_EQ(seen.size(), torch.tiny.layout.size());
  for (const auto& [index, values] : seen) {
    const auto last = torch.tiny.gradients.tensor(index);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), values.begin()));
  }
}

TEST_P(LlamaTorch, WeightsAreReadNoMoreOnceTheirGradientIsHandedOver) {
  for (const bool tied : {false, true}) {
    TorchModel torch(GetParam(), section(tied, 2));
    expect_streamed_gradients_are_the_whole_ones(torch.tiny, *torch.backend, tokens_, kRows);
  }
}

TEST_P(LlamaTorch, ProjectedGradientsAreProjectionsOfTheWholeOnes) {
  TorchModel torch(GetParam(), section(false, 2));
  const double tolerance = GetParam() == Precision::kFp32 ? 1e-5 : 3e-2;
  expect_projected_gradients_are_projections_of_the_whole_ones(torch.tiny, *torch.backend, tokens_,
                                                               kRows, tolerance);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LlamaTorch,
                         testing::Values(Precision::kFp32, Precision::kBf16), [](const auto& test) {
                           return std::string(test.param == Precision::kFp32 ? "fp32" : "bf16");
                         });

TEST(LlamaTorchErrors, RefusesWhatOurOwnEngineRefuses) {
  TorchModel torch(Precision::kFp32, section(false, 4));
  std::vector<int32_t> tokens = random_tokens(kRows * (kSequence + 1), 67);
  EXPECT_THAT([&] { torch.backend->loss(std::span(tokens).first(99), kRows); },
              ThrowsMessage<Error>(HasSubstr("1 to 4 rows of 2 to 25 tokens")));
  tokens[7] = 67;
  EXPECT_THAT([&] { torch.backend->loss(tokens, kRows); },
              ThrowsMessage<Error>(HasSubstr("token 67 at index 7 is outside")));
}

TEST(PlacementOf, IsEmptyForOurOwnBackend) {
  EXPECT_FALSE(placement_of(DeviceChoice::kCpu));
  ASSERT_TRUE(placement_of(DeviceChoice::kTorchCpu));
  EXPECT_EQ(placement_of(DeviceChoice::kTorchCpu)->kind, Device::kCpu);
  EXPECT_EQ(placement_of(DeviceChoice::kAuto).has_value(), tensor::cuda_device_count() > 0);
}

TEST(PlacementOf, CudaSaysWhatIsThereOrSpreadsTheWorkers) {
  const int count = tensor::cuda_device_count();
  if (count == 0) {
    EXPECT_THAT([] { placement_of(DeviceChoice::kCuda); },
                ThrowsMessage<UsageError>(HasSubstr(tensor::cuda_status())));
  } else {
    EXPECT_EQ(placement_of(DeviceChoice::kCuda, count + 1)->index, 1 % count);
  }
}

}  // namespace
}  // namespace thinwire::model
