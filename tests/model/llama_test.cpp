#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/model/tiny_model.h"
#include "thinwire/base/error.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/model/graph_model.h"

namespace thinwire::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LlamaGolden : public testing::TestWithParam<const char*> {};

TEST_P(LlamaGolden, LossEqualsTheReference) {
  const Golden golden(GetParam());
  const auto tiny = golden.model();
  const auto llama = tiny->make(Precision::kFp32, Golden::kRows, Golden::kSequence);
  const double mean = llama->loss(golden.tokens, Golden::kRows) / golden.predictions();
  EXPECT_NEAR(mean, golden.loss, 1e-5 * golden.loss);
}

TEST_P(LlamaGolden, GradientsEqualTheReference) {
  const Golden golden(GetParam());
  const auto tiny = golden.model(2);
  const auto llama = tiny->make(Precision::kFp32, Golden::kRows, Golden::kSequence);
  const auto scale = static_cast<float>(1.0 / golden.predictions());
  llama->loss_and_gradients(golden.tokens, Golden::kRows, scale, tiny->gradients);
  for (size_t i = 0; i < tiny->layout.size(); ++i) {
    const std::string& name = tiny->layout.specs()[i].name;
    const std::vector<float> expected = golden.file.read_f32("grad." + name);
    EXPECT_LT(relative_error(tiny->gradients.tensor(i), expected), 1e-4) << name;
  }
}

TEST_P(LlamaGolden, Bf16IsCloseToFp32) {
  const Golden golden(GetParam());
  const auto tiny = golden.model();
  const auto llama = tiny->make(Precision::kBf16, Golden::kRows, Golden::kSequence);
  const auto scale = static_cast<float>(1.0 / golden.predictions());
  const double sum =
      llama->loss_and_gradients(golden.tokens, Golden::kRows, scale, tiny->gradients);
  EXPECT_NEAR(sum / golden.predictions(), golden.loss, 0.01 * golden.loss);
  for (size_t i = 0; i < tiny->layout.size(); ++i) {
    const std::string& name = tiny->layout.specs()[i].name;
    const std::vector<float> expected = golden.file.read_f32("grad." + name);
    EXPECT_LT(relative_error(tiny->gradients.tensor(i), expected), 0.1) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LlamaGolden, testing::Values("untied", "tied", "gqa"),
                         [](const auto& test) { return std::string(test.param); });

// A small random model and a batch for it.
class LlamaTest : public testing::TestWithParam<Precision> {
 protected:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kSequence = 24;

  LlamaTest() : tiny_(small_section(), 2), llama_(make()) {}

  std::unique_ptr<Model> make() {
    init_parameters(tiny_.params, tiny_.model, 5);
    return tiny_.make(GetParam(), kRows, kSequence);
  }
  std::vector<float> gradients() const {
    const auto all = std::as_const(tiny_.gradients).all();
    return {all.begin(), all.end()};
  }

  TinyModel tiny_;
  std::unique_ptr<Model> llama_;
  std::vector<int32_t> tokens_ = random_tokens(kRows * (kSequence + 1), 67);
};

TEST_P(LlamaTest, RepeatsBitForBit) {
  const double first = llama_->loss_and_gradients(tokens_, kRows, 0.5f, tiny_.gradients);
  const std::vector<float> once = gradients();
  tiny_.clear_gradients();
  EXPECT_EQ(first, llama_->loss_and_gradients(tokens_, kRows, 0.5f, tiny_.gradients));
  EXPECT_EQ(once, gradients());
}

TEST_P(LlamaTest, WhatIsComputedAgainHasTheSameBitsInLessMemory) {
  tiny_.model.layers = 3;
  TinyModel deep(tiny_.model, 2);
  init_parameters(deep.params, deep.model, 5);
  std::vector<float> expected;
  size_t bytes = std::numeric_limits<size_t>::max();
  double loss = 0;
  for (const auto recompute :
       {config::Recompute::kNone, config::Recompute::kAttention, config::Recompute::kBlock}) {
    deep.model.recompute = recompute;
    deep.clear_gradients();
    const auto llama = deep.make(GetParam(), kRows, kSequence);
    const double sum = llama->loss_and_gradients(tokens_, kRows, 0.5f, deep.gradients);
    const auto all = std::as_const(deep.gradients).all();
    if (expected.empty()) {
      loss = sum;
      expected.assign(all.begin(), all.end());
    }
    EXPECT_EQ(sum, loss) << name_of(recompute);
    EXPECT_TRUE(std::equal(all.begin(), all.end(), expected.begin())) << name_of(recompute);
    EXPECT_LT(llama->activation_bytes(), bytes) << name_of(recompute);
    bytes = llama->activation_bytes();
  }
}

// In fp32 nothing is rounded.
TEST_P(LlamaTest, BlocksAreRecomputedFromRoundedInputsInLessMemory) {
  tiny_.model.layers = 5;
  tiny_.model.recompute = config::Recompute::kBlock;
  TinyModel deep(tiny_.model, 2);
  init_parameters(deep.params, deep.model, 5);
  const auto exact = deep.make(GetParam(), kRows, kSequence);
  const double loss = exact->loss_and_gradients(tokens_, kRows, 0.5f, deep.gradients);
  const auto all = std::as_const(deep.gradients).all();
  const std::vector<float> expected(all.begin(), all.end());
  deep.model.block_inputs = Precision::kBf16;
  const auto rounded = deep.make(GetParam(), kRows, kSequence);
  for (int pass = 0; pass < 2; ++pass) {
    deep.clear_gradients();
    EXPECT_EQ(rounded->loss_and_gradients(tokens_, kRows, 0.5f, deep.gradients), loss);
    const double error = relative_norm_of_error(all, expected);
    if (GetParam() == Precision::kFp32) {
      EXPECT_EQ(error, 0);
    } else {
      EXPECT_GT(error, 0);
      EXPECT_LT(error, 2e-2);  // as with products in bf16
    }
  }
  const double saved = GetParam() == Precision::kFp32 ? 0 : 4 * 2;  // four blocks' halves
  const double values = kRows * kSequence * static_cast<double>(deep.model.hidden);
  EXPECT_GE(static_cast<double>(exact->activation_bytes()),
            static_cast<double>(rounded->activation_bytes()) + saved * values);
}

TEST_P(LlamaTest, LossAloneIsTheSameNumber) {
  const double alone = llama_->loss(tokens_, kRows);
  EXPECT_EQ(alone, llama_->loss_and_gradients(tokens_, kRows, 1.0f, tiny_.gradients));
}

TEST_P(LlamaTest, MicrobatchesAddUpToTheBatch) {
  const double whole = llama_->loss_and_gradients(tokens_, kRows, 0.1f, tiny_.gradients);
  const std::vector<float> expected = gradients();
  tiny_.clear_gradients();
  double parts = 0;
  const size_t half = tokens_.size() / 2;
  for (const size_t start : {size_t{0}, half}) {
    const auto part = std::span<const int32_t>(tokens_).subspan(start, half);
    parts += llama_->loss_and_gradients(part, kRows / 2, 0.1f, tiny_.gradients);
  }
  EXPECT_NEAR(parts, whole, 1e-6 * whole);
  const double bound = GetParam() == Precision::kFp32 ? 1e-5 : 2e-2;
  EXPECT_LT(relative_error(gradients(), expected), bound);
}

TEST_P(LlamaTest, ReplacesGradientsWhateverTheyWere) {
  for (const bool tied : {false, true}) {
    method::ModelSpec section = small_section();
    section.hidden = 24;  // leaves gaps in the arena
    section.tied = tied;
    TinyModel tiny(section, 2);
    init_parameters(tiny.params, section, 5);
    const auto llama = tiny.make(GetParam(), kRows, kSequence);
    const double loss = llama->loss_and_gradients(tokens_, kRows, 0.5f, tiny.gradients);
    const auto all = tiny.gradients.all();
    const std::vector<float> expected(all.begin(), all.end());
    std::fill(all.begin(), all.end(), std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(llama->loss_and_gradients(tokens_, kRows, 0.5f, tiny.gradients, Gradients::kReplace),
              loss);
    // A BLAS may add in a different order if it does not read the old values.
    EXPECT_LT(relative_error(all, expected), 1e-6) << "tied " << tied;
  }
}

TEST_P(LlamaTest, AShorterSequenceIsTheBeginningOfALongerOne) {
  // A position's loss depends on nothing after it, so losses of prefixes differ by single losses,
  // and a row's last input changes only its last loss.
  const auto row = std::span<const int32_t>(tokens_).first(18);
  const double prefix = llama_->loss(row.first(17), 1);
  const double last = llama_->loss(row, 1) - prefix;
  EXPECT_GT(last, 0.0);
  double at_the_end = 0;
  for (int32_t token = 0; token < 67; ++token) {
    std::vector<int32_t> changed(row.begin(), row.end());
    changed.back() = token;
    at_the_end += std::exp(prefix - llama_->loss(changed, 1));
  }
  EXPECT_NEAR(at_the_end, 1.0, 1e-4);
}

TEST_P(LlamaTest, GroupsEndFromTheHeadToTheEmbeddingInTheLastPass) {
  std::vector<int> ended;
  tensor::WholeGradients sink(tiny_.gradients, [&](int group) { ended.push_back(group); });
  llama_->loss_and_gradients(tokens_, kRows, 1.0f, sink, {.first = true, .last = false});
  EXPECT_TRUE(ended.empty());
  llama_->loss_and_gradients(tokens_, kRows, 1.0f, sink, {.first = false, .last = true});
  EXPECT_THAT(ended, ElementsAre(2, 1, 0, kEmbeddingGroup));
}

TEST_P(LlamaTest, AGroupsGradientsAreCompleteWhenItEnds) {
  std::vector<std::pair<size_t, std::vector<float>>> seen;
  tensor::WholeGradients sink(tiny_.gradients, [&](int group) {
    for (size_t i = 0; i < tiny_.layout.size(); ++i) {
      if (gradient_group(tiny_.layout.specs()[i], 2) != group) continue;
      const auto values = tiny_.gradients.tensor(i);
      seen.emplace_back(i, std::vector<float>(values.begin(), values.end()));
    }
  });
  llama_->loss_and_gradients(tokens_, kRows, 1.0f, sink, {});
  ASSERT_EQ(seen.size(), tiny_.layout.size());
  for (const auto& [index, values] : seen) {
    const auto last = tiny_.gradients.tensor(index);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), values.begin()));
  }
}

TEST_P(LlamaTest, RefreshTakesNewParametersOver) {
  const double before = llama_->loss(tokens_, kRows);
  init_parameters(tiny_.params, tiny_.model, 6);
  llama_->refresh();
  const double after = llama_->loss(tokens_, kRows);
  EXPECT_NE(before, after);
  init_parameters(tiny_.params, tiny_.model, 5);
  llama_->refresh();
  EXPECT_EQ(before, llama_->loss(tokens_, kRows));
}

TEST_P(LlamaTest, AStepDownhillLowersTheLoss) {
  const double before = llama_->loss_and_gradients(tokens_, kRows, 1.0f, tiny_.gradients);
  double square = 0;
  for (const float g : tiny_.gradients.all()) square += static_cast<double>(g) * g;
  const double step = 0.02 * before / square;
  for (size_t i = 0; i < tiny_.gradients.all().size(); ++i) {
    tiny_.params.all()[i] -= static_cast<float>(step * tiny_.gradients.all()[i]);
  }
  llama_->refresh();
  const double after = llama_->loss(tokens_, kRows);
  EXPECT_NEAR(after, 0.98 * before, 0.005 * before);
}

TEST_P(LlamaTest, NamesATokenOutsideTheVocabulary) {
  tokens_[7] = 67;
  EXPECT_THAT([&] { llama_->loss(tokens_, kRows); },
              ThrowsMessage<Error>(HasSubstr("token 67 at index 7 is outside")));
  tokens_[7] = -1;
  EXPECT_THAT([&] { llama_->loss(tokens_, kRows); },
              ThrowsMessage<Error>(HasSubstr("vocabulary of 67")));
}

TEST_P(LlamaTest, RefusesABatchOfTheWrongSize) {
  const auto all = std::span<const int32_t>(tokens_);
  for (const auto& [count, rows] : {std::pair<size_t, int64_t>{100, 5}, {99, 4}, {4, 4}, {26, 1}}) {
    EXPECT_THAT([&] { llama_->loss(all.first(count), rows); },
                ThrowsMessage<Error>(HasSubstr("1 to 4 rows of 2 to 25 tokens")))
        << count << " tokens, " << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LlamaTest, testing::Values(Precision::kFp32, Precision::kBf16),
                         [](const auto& test) {
                           return std::string(test.param == Precision::kFp32 ? "fp32" : "bf16");
                         });

TEST(Llama, NanInAParameterReachesTheLoss) {
  TinyModel tiny(small_section());
  init_parameters(tiny.params, tiny.model, 1);
  const size_t index = tiny.layout.find("model.layers.1.self_attn.q_proj.weight");
  tiny.params.tensor(index)[0] = std::nanf("");
  const auto llama = tiny.make(Precision::kFp32, 1, 8);
  EXPECT_TRUE(std::isnan(llama->loss(random_tokens(9, 67), 1)));
}

TEST(Llama, RefusesAnotherModelsParameters) {
  TinyModel tiny(small_section());
  method::ModelSpec other = tiny.model;
  other.options<method::LlamaOptions>().intermediate = 80;
  EXPECT_THAT(([&] {
                make_model({other, Precision::kFp32, tiny.layout, tiny.params, tiny.threads, 1, 8});
              }),
              ThrowsMessage<Error>(HasSubstr("model.layers.0.mlp.gate_proj.weight")));
}

TEST(Llama, RefusesAnOddHeadSize) {
  method::ModelSpec section = small_section();
  section.hidden = 36;
  TinyModel tiny(section);
  EXPECT_THAT(([&] { tiny.make(Precision::kFp32, 1, 8); }),
              ThrowsMessage<Error>(HasSubstr("must be even")));
}

TEST(InitLlama, HasTheStatedDeviations) {
  method::ModelSpec section = small_section();
  section.hidden = 256;
  section.init_std = 0.02;
  TinyModel tiny(section);
  init_parameters(tiny.params, section, 9);
  const auto deviation = [&](const char* name) {
    double square = 0;
    const auto values = tiny.params.tensor(tiny.layout.find(name));
    for (const float value : values) square += static_cast<double>(value) * value;
    return std::sqrt(square / static_cast<double>(values.size()));
  };
  EXPECT_NEAR(deviation("model.embed_tokens.weight"), 0.02, 0.0008);
  EXPECT_NEAR(deviation("model.layers.0.self_attn.q_proj.weight"), 0.02, 0.0004);
  EXPECT_NEAR(deviation("model.layers.1.self_attn.o_proj.weight"), 0.01, 0.0002);
  EXPECT_NEAR(deviation("model.layers.1.mlp.down_proj.weight"), 0.01, 0.0003);
  EXPECT_EQ(deviation("model.norm.weight"), 1.0);
}

TEST(InitLlama, ATensorDependsOnSeedAndNameAlone) {
  method::ModelSpec deeper = small_section();
  deeper.layers = 3;
  TinyModel a(small_section()), b(deeper), c(small_section());
  init_parameters(a.params, a.model, 4);
  init_parameters(b.params, b.model, 4);
  init_parameters(c.params, c.model, 5);
  const size_t index = a.layout.find("model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(a.params.tensor(index)[3], b.params.tensor(index)[3]);
  EXPECT_NE(a.params.tensor(index)[3], c.params.tensor(index)[3]);
}

TEST(PrecisionOn, IsWhatWasChosenOrWhatTheDeviceMultipliesFaster) {
  const Placement gpu = tensor::DevicePlace{Device::kCuda, 0};
  for (const Placement& placement : {Placement(), gpu}) {
    EXPECT_EQ(precision_on(placement, Precision::kFp32), Precision::kFp32);
    EXPECT_EQ(precision_on(placement, Precision::kBf16), Precision::kBf16);
  }
  EXPECT_EQ(precision_on(gpu, Precision::kAuto), Precision::kBf16);
  EXPECT_EQ(precision_on({}, Precision::kAuto) == Precision::kBf16, tensor::has_fast_bf16_gemm());
}

}  // namespace
}  // namespace thinwire::model
