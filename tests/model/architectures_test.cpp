// What every architecture in the table must satisfy, with our own backend: a new one gets these
// tests for free.
#include "thinwire/method/architectures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/projected.h"
#include "tests/model/streamed.h"
#include "tests/model/tiny_model.h"
#include "thinwire/method/llama.h"
#include "thinwire/method/registry.h"
#include "thinwire/model/registry.h"

namespace thinwire::model {
namespace {

constexpr int64_t kRows = 2;
constexpr int64_t kSequence = 20;
constexpr uint64_t kSeed = 5;

class ArchitectureContract : public testing::TestWithParam<const method::Architecture*> {
 protected:
  static method::ModelSpec section() {
    const std::vector<std::string> overrides = {
        "model.architecture=" + std::string(GetParam()->name),
        "model.vocab=67",
        "model.hidden=48",
        "model.layers=3",
        "model.heads=4",
        "model.init_std=0.15"};
    return method::ModelSpec(method::load_recipe({}, overrides));
  }
  static std::unique_ptr<TinyModel> tiny(const method::ModelSpec& model) {
    auto tiny = std::make_unique<TinyModel>(model, 2);
    init_parameters(tiny->params, model, kSeed);
    return tiny;
  }

  std::vector<int32_t> tokens_ = random_tokens(kRows * (kSequence + 1), 67);
};

TEST_P(ArchitectureContract, GradientsAreTheSlopesOfTheLoss) {
  const auto tiny = this->tiny(section());
  const auto model = tiny->make(Precision::kFp32, kRows, kSequence);
  model->loss_and_gradients(tokens_, kRows, 1.0f, tiny->gradients);
  for (size_t i = 0; i < tiny->layout.size(); ++i) {
    // Along the gradient, where the slope is the gradient's norm.
    const auto gradient = std::as_const(tiny->gradients).tensor(i);
    double square = 0;
    for (const float value : gradient) square += static_cast<double>(value) * value;
    const double length = std::sqrt(square);
    const std::vector<float> before(tiny->params.tensor(i).begin(), tiny->params.tensor(i).end());
    const auto loss_at = [&](double step) {
      for (size_t j = 0; j < before.size(); ++j) {
        tiny->params.tensor(i)[j] = before[j] + static_cast<float>(step * gradient[j] / length);
      }
      return model->loss(tokens_, kRows);
    };
    constexpr double kStep = 2e-2;
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    loss_at(0);
    EXPECT_NEAR(slope, length, 0.02 * length) << tiny->layout.specs()[i].name;
  }
}

TEST_P(ArchitectureContract, WhatIsComputedAgainHasTheSameBits) {
  std::vector<float> expected;
  for (const char* recompute : {"none", "attention", "block"}) {
    method::ModelSpec model = section();
    model.recompute = recompute;
    const auto tiny = this->tiny(model);
    tiny->make(Precision::kBf16, kRows, kSequence)
        ->loss_and_gradients(tokens_, kRows, 1.0f, tiny->gradients);
    const auto all = std::as_const(tiny->gradients).all();
    if (expected.empty()) expected.assign(all.begin(), all.end());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), expected.begin())) << recompute;
  }
}

TEST_P(ArchitectureContract, TakesTheMemoryItSays) {
  for (const char* recompute : {"none", "attention", "block"}) {
    method::ModelSpec model = section();
    model.recompute = recompute;
    const auto tiny = this->tiny(model);
    const auto bytes = [&](int64_t rows) {
      return static_cast<double>(tiny->make(Precision::kFp32, rows, kSequence)->activation_bytes());
    };
    const auto said = [&](int64_t rows) {
      return GetParam()->memory(model, {rows, kSequence, 4}).activations;
    };
    // The chunk of logits is counted elsewhere; here it is so large that it grows with the rows.
    const double head = 4.0 * kSequence * (67 + 2 + 3 * 48);
    EXPECT_NEAR(bytes(3) - bytes(2), said(3) - said(2) + head, 0.01 * said(2)) << recompute;
  }
}

TEST_P(ArchitectureContract, WeightsAreReadNoMoreOnceTheirGradientIsHandedOver) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const char* recompute : {"none", "block"}) {
      for (const bool tied : {false, true}) {
        method::ModelSpec model = section();
        model.recompute = recompute;
        model.tied = tied;
        const auto tiny = this->tiny(model);
        const auto made = tiny->make(precision, kRows, kSequence);
        expect_streamed_gradients_are_the_whole_ones(*tiny, *made, tokens_, kRows);
      }
    }
  }
}

TEST_P(ArchitectureContract, ProjectedGradientsAreProjectionsOfTheWholeOnes) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto tiny = this->tiny(section());
    const auto made = tiny->make(precision, kRows, kSequence);
    expect_projected_gradients_are_projections_of_the_whole_ones(
        *tiny, *made, tokens_, kRows, precision == Precision::kFp32 ? 1e-5 : 3e-2);
  }
}

TEST_P(ArchitectureContract, StreamedGradientsTakeTheMemoryItSays) {
  for (const int64_t vocabulary : {67, 1000}) {
    for (const int64_t width : {48, 24, 20}) {  // whose neighbours have gaps, or not
      for (const bool tied : {false, true}) {
        method::ModelSpec model = section();
        model.vocab = vocabulary;
        model.hidden = width;
        model.heads = 2;
        if (auto* llama = dynamic_cast<method::LlamaOptions*>(model.own.get())) {
          llama->intermediate = width + 10;
          llama->kv_heads = 1;
        }
        model.tied = tied;
        const auto tiny = this->tiny(model);
        const auto made = tiny->make(Precision::kFp32, kRows, kSequence);
        const tensor::StreamedGradients sink(tiny->layout, made->stream_size(), {});
        EXPECT_EQ(static_cast<double>(sink.bytes()),
                  GetParam()->memory(model, {kRows, kSequence, 4}).streamed_gradients)
            << "vocabulary " << vocabulary << " width " << width << " tied " << tied;
      }
    }
  }
}

TEST_P(ArchitectureContract, DecodingGivesTheLossOfTraining) {
  const auto tiny = this->tiny(section());
  const auto row = std::span<const int32_t>(tokens_).first(kSequence + 1);
  const auto decoder = make_decoder({tiny->model, tiny->params, tiny->threads, kSequence});
  double sum = 0;
  for (size_t t = 0; t < kSequence; ++t) {
    const auto logits = decoder->step(row[t]);
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    sum += std::log(total) - logits[static_cast<size_t>(row[t + 1])];
  }
  EXPECT_NEAR(tiny->make(Precision::kFp32, 1, kSequence)->loss(row, 1), sum, 1e-5 * sum);
}

INSTANTIATE_TEST_SUITE_P(All, ArchitectureContract,
                         testing::ValuesIn(method::all_architectures().begin(),
                                           method::all_architectures().end()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(Models, AreThoseOfTheTableOfFacts) {
  ASSERT_EQ(all_models().size(), method::all_architectures().size());
  for (const ModelEntry& entry : all_models()) {
    EXPECT_NO_THROW(method::find_architecture(entry.name));
  }
}

}  // namespace
}  // namespace thinwire::model
