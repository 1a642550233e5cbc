// Models with adapters, with our own backend: for every kind, against the model whose matrices are
// W + s B A, and against the slopes of the loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/model/adapted_model.h"
#include "tests/model/streamed.h"
#include "thinwire/base/names.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 2;
constexpr int64_t kSequence = 20;

// The same model with all its matrices whole.
std::unique_ptr<TinyModel> merged(AdaptedModel& adapted) {
  auto whole = std::make_unique<TinyModel>(adapted.model);
  for (size_t i = 0; i < whole->layout.size(); ++i) {
    const std::string& name = whole->layout.specs()[i].name;
    for (const tensor::Arena* from : {&adapted.params, &adapted.frozen}) {
      const std::optional<size_t> at = from->layout().index_of(name);
      if (at) std::ranges::copy(from->tensor(*at), whole->params.tensor(i).begin());
    }
    const method::FactorNames factors = method::factor_names(name);
    const std::optional<size_t> a = adapted.layout.index_of(factors.a);
    if (!a) continue;
    tensor::add_factors(whole->params.tensor(i), std::as_const(adapted.params).tensor(*a),
                        std::as_const(adapted.params).tensor(adapted.layout.find(factors.b)),
                        adapted.adapter.rank,
                        static_cast<float>(method::factor_scale(adapted.adapter)), adapted.threads);
  }
  return whole;
}

struct Case {
  std::string name;
  method::AdapterSpec adapter;
  bool tied = false;
};

std::vector<Case> cases() {
  Case some{"some", small_adapter()}, whole{"whole", small_adapter()}, tied = whole;
  some.adapter.targets = {"q_proj", "v_proj", "layers.1.mlp.down_proj"};
  whole.adapter.targets = {"k_proj", "up_proj"};
  whole.adapter.whole = {"*norm", "embed_tokens", "q_proj", "lm_head", "o_proj"};
  tied.name = "tied";
  tied.tied = true;
  tied.adapter.whole = {"embed_tokens"};
  Case low_rank{"low_rank", small_adapter(method::AdapterKind::kLowRank)}, partly = low_rank;
  partly.name = "low_rank_partly";
  partly.adapter.targets = {"q_proj", "v_proj", "gate_proj", "down_proj"};
  return {{"lora", small_adapter()},
          some,
          whole,
          tied,
          {"relora", small_adapter(method::AdapterKind::kRelora)},
          low_rank,
          partly};
}

class Adapters : public testing::TestWithParam<Case> {
 protected:
  static method::ModelSpec section() {
    method::ModelSpec model = small_section();
    model.layers = 3;
    model.tied = GetParam().tied;
    return model;
  }
  AdaptedModel adapted_{section(), GetParam().adapter};
  std::vector<int32_t> tokens_ = random_tokens(kRows * (kSequence + 1), 67);
};

TEST_P(Adapters, LossIsThatOfTheMergedModel) {
  const auto whole = merged(adapted_);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const double expected = whole->make(precision, kRows, kSequence)->loss(tokens_, kRows);
    const double loss = adapted_.make(precision, kRows, kSequence)->loss(tokens_, kRows);
    EXPECT_NEAR(loss, expected, (precision == Precision::kFp32 ? 1e-5 : 1e-2) * expected);
  }
}

// dA = s B^T dW and dB = s dW A^T, with the gradient dW of the merged matrix.
TEST_P(Adapters, GradientsFollowFromThoseOfTheMergedModel) {
  const auto whole = merged(adapted_);
  whole->make(Precision::kFp32, kRows, kSequence)
      ->loss_and_gradients(tokens_, kRows, 1.0f, whole->gradients);
  adapted_.make(Precision::kFp32, kRows, kSequence)
      ->loss_and_gradients(tokens_, kRows, 1.0f, adapted_.gradients);
  const auto scale = static_cast<float>(method::factor_scale(adapted_.adapter));
  const int64_t rank = adapted_.adapter.rank;
  for (size_t i = 0; i < whole->layout.size(); ++i) {
    const TensorSpec& spec = whole->layout.specs()[i];
    const auto dw = std::as_const(whole->gradients).tensor(i);
    if (const auto same = adapted_.layout.index_of(spec.name)) {
      EXPECT_LT(relative_error(std::as_const(adapted_.gradients).tensor(*same), dw), 1e-4)
          << spec.name;
    }
    const method::FactorNames names = method::factor_names(spec.name);
    const auto at = adapted_.layout.index_of(names.a);
    if (!at) continue;
    const size_t other = adapted_.layout.find(names.b);
    const int64_t out = spec.shape[0], in = spec.shape[1];
    const auto a = std::as_const(adapted_.params).tensor(*at);
    const auto b = std::as_const(adapted_.params).tensor(other);
    std::vector<float> da(a.size()), db(b.size());
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < rank; ++k) {
        for (int64_t j = 0; j < in; ++j) {
          da[size_t(k * in + j)] += scale * b[size_t(o * rank + k)] * dw[size_t(o * in + j)];
          db[size_t(o * rank + k)] += scale * a[size_t(k * in + j)] * dw[size_t(o * in + j)];
        }
      }
    }
    EXPECT_LT(relative_error(std::as_const(adapted_.gradients).tensor(*at), da), 1e-4) << names.a;
    EXPECT_LT(relative_error(std::as_const(adapted_.gradients).tensor(other), db), 1e-4) << names.b;
  }
}

TEST_P(Adapters, GradientsAreTheSlopesOfTheLoss) {
  const auto model = adapted_.make(Precision::kFp32, kRows, kSequence);
  model->loss_and_gradients(tokens_, kRows, 1.0f, adapted_.gradients);
  for (size_t i = 0; i < adapted_.layout.size(); ++i) {
    const auto gradient = std::as_const(adapted_.gradients).tensor(i);
    double square = 0;
    for (const float value : gradient) square += static_cast<double>(value) * value;
    const double length = std::sqrt(square);
    const auto values = adapted_.params.tensor(i);
    const std::vector<float> before(values.begin(), values.end());
    const auto loss_at = [&](double step) {
      for (size_t j = 0; j < before.size(); ++j) {
        values[j] = before[j] + static_cast<float>(step * gradient[j] / length);
      }
      return model->loss(tokens_, kRows);
    };
    constexpr double kStep = 5e-3;
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    loss_at(0);
    EXPECT_NEAR(slope, length, 0.02 * length) << adapted_.layout.specs()[i].name;
  }
}

TEST_P(Adapters, AreReadNoMoreOnceTheirGradientIsHandedOver) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    AdaptedModel adapted(section(), GetParam().adapter);
    const auto model = adapted.make(precision, kRows, kSequence);
    expect_streamed_gradients_are_the_whole_ones(adapted, *model, tokens_, kRows);
  }
}

TEST_P(Adapters, PassesAddUp) {
  const auto model = adapted_.make(Precision::kFp32, kRows, kSequence);
  model->loss_and_gradients(tokens_, kRows, 1.0f, adapted_.gradients);
  tensor::Arena summed(adapted_.layout);
  const size_t half = tokens_.size() / 2;
  const std::span<const int32_t> tokens = tokens_;
  model->loss_and_gradients(tokens.first(half), 1, 1.0f, summed, Gradients::kReplace);
  model->loss_and_gradients(tokens.subspan(half), 1, 1.0f, summed, Gradients::kAdd);
  for (size_t i = 0; i < adapted_.layout.size(); ++i) {
    EXPECT_LT(relative_error(std::as_const(summed).tensor(i),
                             std::as_const(adapted_.gradients).tensor(i)),
              1e-4)
        << adapted_.layout.specs()[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Adapters, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(AdapterModel, FrozenWeightsMayChangeBetweenBatches) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    AdaptedModel adapted(small_section(), small_adapter());
    const auto model = adapted.make(precision, kRows, kSequence);
    const auto tokens = random_tokens(kRows * (kSequence + 1), 67);
    const double before = model->loss(tokens, kRows);
    for (float& value : adapted.frozen.all()) value *= 1.5f;
    model->refresh_frozen();
    const double changed = model->loss(tokens, kRows);
    EXPECT_NE(changed, before);
    EXPECT_EQ(adapted.make(precision, kRows, kSequence)->loss(tokens, kRows), changed);
  }
}

// Products decode the matrices panel by panel, and sum as those of the decoded ones do.
class OnAnEncodedBase : public testing::TestWithParam<WeightFormat> {};

TEST_P(OnAnEncodedBase, HasTheBitsOfOneInBf16ThatWasDecoded) {
  for (const int threads : {1, 3}) {
    AdaptedModel adapted(small_section(), small_adapter(), threads);
    tensor::Arena packed(adapted.frozen_layout, GetParam());
    tensor::Arena decoded(adapted.frozen_layout, WeightFormat::kBf16);
    packed.assign(adapted.frozen);
    decoded.assign(packed);
    const auto tokens = random_tokens(kRows * (kSequence + 1), 67);
    tensor::Arena expected(adapted.layout);
    const auto loss_on = [&](const tensor::Arena& base, tensor::Arena& gradients) {
      ModelParts parts = adapted.parts(Precision::kBf16, kRows, kSequence);
      parts.frozen = &base;
      return make_model(parts)->loss_and_gradients(tokens, kRows, 1.0f, gradients,
                                                   Gradients::kReplace);
    };
    const double loss = loss_on(decoded, expected);
    EXPECT_EQ(loss_on(packed, adapted.gradients), loss);
    EXPECT_NE(loss_on(adapted.frozen, adapted.gradients), loss);
    loss_on(packed, adapted.gradients);
    EXPECT_TRUE(std::ranges::equal(std::as_const(adapted.gradients).bytes(),
                                   std::as_const(expected).bytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(AdapterModel, OnAnEncodedBase,
                         testing::Values(WeightFormat::kNf4, WeightFormat::kInt8),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST(AdapterModel, RefusesTensorsOfAnotherAdapter) {
  AdaptedModel adapted(small_section(), small_adapter());
  ModelParts other_rank = adapted.parts(Precision::kFp32, kRows, kSequence);
  other_rank.adapter.rank = 5;
  EXPECT_THAT(tests::error_of([&] { make_model(other_rank); }),
              HasSubstr("lora_A.weight as tensor 0"));
  ModelParts no_base = adapted.parts(Precision::kFp32, kRows, kSequence);
  no_base.frozen = nullptr;
  EXPECT_THAT(tests::error_of([&] { make_model(no_base); }),
              HasSubstr("expected model.embed_tokens.weight as tensor 0"));
}

}  // namespace
}  // namespace thinwire::model
