// What every architecture in the table must satisfy, with our own backend: a new one gets these
// tests for free.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/projected.h"
#include "tests/model/streamed.h"
#include "tests/model/tiny_model.h"
#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/model/registry.h"

namespace thinwire::model {
namespace {

using config::Recompute;

constexpr int64_t kRows = 2;
constexpr int64_t kSequence = 20;
constexpr uint64_t kSeed = 5;

// An architecture, with options of its table that change what it computes.
struct Subject {
  const method::Architecture* architecture;
  std::string name;
  std::vector<std::string> options = {};

  friend void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const method::Architecture* architecture : method::all_architectures()) {
    all.push_back({architecture, std::string(architecture->name)});
    // An encoder predicts the row's last token as its class.
    if (architecture->encodes) {
      all.back().options = {all.back().name + ".labels=67", "data.records=labels"};
    }
  }
  const auto llama = [&](const char* name, std::vector<std::string> options) {
    all.push_back({&method::kLlama, name, std::move(options)});
  };
  llama("llama_biases", {"llama.qkv_bias=true", "llama.out_bias=true", "llama.mlp_bias=true"});
  llama("llama_query_bias", {"llama.qkv_bias=true", "llama.kv_heads=2"});
  llama("llama_wide_heads", {"llama.head_dim=20", "llama.kv_heads=2", "llama.qk_norm=head"});
  llama("llama_norms_after", {"llama.norm_place=after", "llama.qk_norm=all", "llama.kv_heads=2"});
  llama("llama_all_norms_after", {"llama.norm_place=after", "llama.qk_norm=head",
                                  "llama.head_dim=16", "llama.mlp_bias=true", "llama.window=4"});
  llama("llama_window", {"llama.window=6", "llama.full_layers=1"});
  llama("llama_dynamic",
        {"llama.rope_scaling=dynamic", "llama.rope_factor=2", "llama.rope_context=9"});
  return all;
}

class ArchitectureContract : public testing::TestWithParam<Subject> {
 protected:
  static const method::Architecture& architecture() { return *GetParam().architecture; }
  static method::ModelSpec section() {
    std::vector<std::string> overrides = {"model.architecture=" + std::string(architecture().name),
                                          "model.vocab=67",
                                          "model.hidden=48",
                                          "model.layers=3",
                                          "model.heads=4",
                                          "model.init_std=0.15"};
    overrides.insert(overrides.end(), GetParam().options.begin(), GetParam().options.end());
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
    // Softmax takes out what a key's bias adds: in an encoder, where all positions see all others,
    // and without rotation, that is everything but a few last bits of the fp32 logits.
    const std::string& name = tiny->layout.specs()[i].name;
    const double rounding = name.ends_with("self.key.bias") ? 1e-4 : 0;
    EXPECT_NEAR(slope, length, 0.02 * length + rounding) << name;
  }
}

TEST_P(ArchitectureContract, WhatIsComputedAgainHasTheSameBits) {
  std::vector<float> expected;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAttention, Recompute::kBlock}) {
    method::ModelSpec model = section();
    model.recompute = recompute;
    const auto tiny = this->tiny(model);
    tiny->make(Precision::kBf16, kRows, kSequence)
        ->loss_and_gradients(tokens_, kRows, 1.0f, tiny->gradients);
    const auto all = std::as_const(tiny->gradients).all();
    if (expected.empty()) expected.assign(all.begin(), all.end());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), expected.begin())) << name_of(recompute);
  }
}

TEST_P(ArchitectureContract, TakesTheMemoryItSays) {
  const std::pair<Recompute, Precision> all[] = {{Recompute::kNone, Precision::kFp32},
                                                 {Recompute::kAttention, Precision::kFp32},
                                                 {Recompute::kBlock, Precision::kFp32},
                                                 {Recompute::kBlock, Precision::kBf16}};
  for (const auto& [recompute, inputs] : all) {
    method::ModelSpec model = section();
    model.recompute = recompute;
    model.block_inputs = inputs;
    const auto tiny = this->tiny(model);
    const auto bytes = [&](int64_t rows) {
      return static_cast<double>(tiny->make(Precision::kFp32, rows, kSequence)->activation_bytes());
    };
    const auto said = [&](int64_t rows) {
      return architecture().memory(model, {rows, kSequence, 4}).activations;
    };
    // The chunk of logits is counted elsewhere; here it is so large that it grows with the rows.
    const double head = 4.0 * kSequence * (67 + 2 + 3 * 48);
    EXPECT_NEAR(bytes(3) - bytes(2), said(3) - said(2) + head, 0.01 * said(2))
        << name_of(recompute) << " from " << name_of(inputs);
  }
}

TEST_P(ArchitectureContract, WeightsAreReadNoMoreOnceTheirGradientIsHandedOver) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
      for (const bool tied : {false, true}) {
        method::ModelSpec model = section();
        model.recompute = recompute;
        if (!tied) model.block_inputs = Precision::kBf16;
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
                  architecture().memory(model, {kRows, kSequence, 4}).streamed_gradients)
            << "vocabulary " << vocabulary << " width " << width << " tied " << tied;
      }
    }
  }
}

TEST_P(ArchitectureContract, DecodingGivesTheLossOfTraining) {
  if (architecture().encodes) GTEST_SKIP() << "an encoder does not generate text";
  const auto tiny = this->tiny(section());
  const auto row = std::span<const int32_t>(tokens_).first(kSequence + 1);
  const auto decoder = make_decoder({tiny->model, tiny->params, tiny->threads, kSequence});
  double sum = 0;
  size_t t = 0;
  decoder->prefill_each(row.first(kSequence), [&](std::span<const float> logits) {
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    sum += std::log(total) - logits[static_cast<size_t>(row[++t])];
  });
  EXPECT_NEAR(tiny->make(Precision::kFp32, 1, kSequence)->loss(row, 1), sum, 1e-5 * sum);
}

INSTANTIATE_TEST_SUITE_P(All, ArchitectureContract, testing::ValuesIn(subjects()),
                         [](const auto& test) { return test.param.name; });

TEST(Models, AreThoseOfTheTableOfFacts) {
  ASSERT_EQ(all_models().size(), method::all_architectures().size());
  for (const ModelEntry* entry : all_models()) {
    EXPECT_NO_THROW(method::find_architecture(entry->name));
  }
}

}  // namespace
}  // namespace thinwire::model
