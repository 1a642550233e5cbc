#include "thinwire/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/base/error.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class DecoderGolden : public testing::TestWithParam<const char*> {};

TEST_P(DecoderGolden, LogitsOfEveryStepEqualTheReference) {
  const Golden golden(GetParam());
  const auto tiny = golden.model(2);
  const auto decoder = make_decoder({tiny->model, tiny->params, tiny->threads, Golden::kSequence});
  const std::vector<float> expected = golden.file.read_f32("logits");
  const size_t vocabulary = expected.size() / Golden::kSequence;
  for (size_t t = 0; t < Golden::kSequence; ++t) {
    const auto row = std::span<const float>(expected).subspan(t * vocabulary, vocabulary);
    EXPECT_LT(relative_error(decoder->step(golden.tokens[t]), row), 1e-5) << "position " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DecoderGolden, testing::Values("untied", "tied", "gqa"),
                         [](const auto& test) { return std::string(test.param); });

// On our own backend and on LibTorch's.
class DecoderTest : public testing::TestWithParam<config::DeviceChoice> {
 protected:
  static constexpr int64_t kContext = 150;

  DecoderTest() : tiny_(small_section()) { init_parameters(tiny_.params, tiny_.model, 5); }
  void SetUp() override {
    const std::string absent = without_torch([&] { decoder_ = make(tiny_.params); });
    if (!absent.empty()) GTEST_SKIP() << absent;
  }

  std::unique_ptr<Decoder> make(const tensor::Arena& params) {
    return make_decoder({tiny_.model, params, tiny_.threads, kContext, placement_of(GetParam())});
  }
  std::vector<float> prefill(std::span<const int32_t> tokens) {
    const auto logits = decoder_->prefill(tokens);
    return {logits.begin(), logits.end()};
  }

  TinyModel tiny_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<int32_t> tokens_ = random_tokens(kContext, 67);
};

TEST_P(DecoderTest, LossOfItsLogitsIsTheModelsLoss) {
  double sum = 0;
  for (size_t t = 0; t + 1 < tokens_.size(); ++t) {
    const auto logits = decoder_->step(tokens_[t]);
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    sum += std::log(total) - logits[static_cast<size_t>(tokens_[t + 1])];
  }
  const auto llama = tiny_.make(Precision::kFp32, 1, kContext);
  EXPECT_NEAR(sum, llama->loss(tokens_, 1), 1e-5 * sum);
}

TEST_P(DecoderTest, PrefillInAnyPiecesIsTheSameAsSteps) {
  std::vector<float> by_steps;
  for (const int32_t token : tokens_) {
    const auto logits = decoder_->step(token);
    by_steps.assign(logits.begin(), logits.end());
  }
  const auto all = std::span<const int32_t>(tokens_);
  for (const size_t cut : {1, 64, 100, 149}) {
    decoder_->reset();
    prefill(all.first(cut));
    EXPECT_LT(relative_error(prefill(all.subspan(cut)), by_steps), 1e-4) << "cut at " << cut;
  }
}

TEST_P(DecoderTest, ARewoundSequenceGoesOnFromThere) {
  const auto all = std::span<const int32_t>(tokens_);
  const std::vector<float> expected = prefill(all.first(100));
  decoder_->rewind(60);
  prefill(all.last(40));
  decoder_->rewind(60);
  EXPECT_EQ(decoder_->position(), 60);
  EXPECT_LT(relative_error(prefill(all.subspan(60, 40)), expected), 1e-4);
}

TEST_P(DecoderTest, Bf16WeightsGiveWhatTheSameNumbersGiveInFp32) {
  tensor::Arena rounded(tiny_.layout, WeightFormat::kBf16);
  rounded.assign(tiny_.params);
  rounded.read(0, tiny_.params.all());
  const auto other = make(rounded);
  const auto all = std::span<const int32_t>(tokens_);
  for (const size_t cut : {1, 100}) {
    decoder_->reset();
    other->reset();
    const std::vector<float> many = prefill(all.first(cut));
    EXPECT_LT(relative_error(other->prefill(all.first(cut)), many), 1e-5) << cut;
    const auto next = decoder_->step(tokens_[cut]);
    EXPECT_LT(relative_error(other->step(tokens_[cut]), next), 1e-5) << cut;
  }
}

TEST_P(DecoderTest, AFullContextIsAnErrorAndChangesNothing) {
  const auto all = std::span<const int32_t>(tokens_);
  prefill(all.first(149));
  EXPECT_THAT([&] { prefill(all.first(2)); },
              ThrowsMessage<Error>(HasSubstr("context of 150 tokens is full: 149 are in it, 2")));
  EXPECT_EQ(decoder_->position(), 149);
  EXPECT_NO_THROW(decoder_->step(tokens_[149]));
  EXPECT_THROW(decoder_->step(0), Error);
}

TEST_P(DecoderTest, NamesATokenOutsideTheVocabulary) {
  EXPECT_THAT([&] { decoder_->step(67); }, ThrowsMessage<Error>(HasSubstr("token 67")));
  EXPECT_EQ(decoder_->position(), 0);
}

TEST_P(DecoderTest, NeedsATokenToContinueFrom) {
  EXPECT_THAT([&] { prefill({}); }, ThrowsMessage<Error>(HasSubstr("no tokens")));
}

INSTANTIATE_TEST_SUITE_P(Devices, DecoderTest,
                         testing::Values(config::DeviceChoice::kCpu,
                                         config::DeviceChoice::kTorchCpu),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace thinwire::model
