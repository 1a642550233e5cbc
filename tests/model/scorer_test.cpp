#include "thinwire/model/scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/base/error.h"
#include "thinwire/model/registry.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// On our own backend and on LibTorch's.
class ScorerTest : public testing::TestWithParam<config::DeviceChoice> {
 protected:
  static constexpr int64_t kContext = 150;

  ScorerTest() : tiny_(small_section(), 2) { init_parameters(tiny_.params, tiny_.model, 5); }
  void SetUp() override {
    const std::string absent = without_torch([&] { scorer_ = make_scorer(parts()); });
    if (!absent.empty()) GTEST_SKIP() << absent;
  }

  DecoderParts parts() {
    return {tiny_.model, tiny_.params, tiny_.threads, kContext, placement_of(GetParam())};
  }

  // Minus the losses of tokens [scored, end) by the model itself.
  double reference(std::span<const int32_t> tokens, int64_t scored) {
    const auto model = tiny_.make(Precision::kFp32, 1, kContext);
    std::vector<float> weights(tokens.size() - 1, 0.0f);
    std::fill(weights.begin() + scored - 1, weights.end(), 1.0f);
    return -model->loss(Examples{.inputs = tokens.first(tokens.size() - 1),
                                 .targets = tokens.subspan(1),
                                 .weights = weights,
                                 .rows = 1});
  }

  TinyModel tiny_;
  std::unique_ptr<Scorer> scorer_;
};

// Beginnings shared by none, some and all of their tokens, across passes and blocks of queries.
TEST_P(ScorerTest, ScoresAreMinusTheModelsLossesWhateverTextsShare) {
  std::vector<std::vector<int32_t>> texts;
  const std::vector<int32_t> common = random_tokens(120, 67, 1);
  for (uint64_t i = 0; i < 40; ++i) {
    std::vector<int32_t> text(common.begin(), common.begin() + static_cast<int64_t>(i % 5 * 30));
    const auto own = random_tokens(2 + static_cast<int64_t>(i % 7) * 4, 67, 100 + i);
    text.insert(text.end(), own.begin(), own.end());
    texts.push_back(text);
  }
  texts.push_back(texts.front());  // twice the same
  texts.push_back(common);         // the beginning of others
  std::vector<ScoredText> asked;
  for (size_t i = 0; i < texts.size(); ++i) {
    asked.push_back({texts[i], i % 3 == 0 ? 1 : std::ssize(texts[i]) - 1});
  }
  const std::vector<Score> scores = scorer_->score(asked);
  for (size_t i = 0; i < texts.size(); ++i) {
    const double expected = reference(texts[i], asked[i].scored);
    EXPECT_NEAR(scores[i].log_likelihood, expected, 1e-5 * std::abs(expected)) << "text " << i;
  }
}

TEST_P(ScorerTest, GreedyMeansEachTokenIsTheLikeliest) {
  const std::vector<int32_t> start = random_tokens(10, 67, 4);
  const auto decoder = make_decoder(parts());
  std::span<const float> logits = decoder->prefill(start);
  std::vector<int32_t> likeliest = start;
  for (int i = 0; i < 3; ++i) {
    const auto best = std::ranges::max_element(logits) - logits.begin();
    likeliest.push_back(static_cast<int32_t>(best));
    logits = decoder->step(likeliest.back());
  }
  std::vector<int32_t> other = likeliest;
  other[11] = (other[11] + 1) % 67;
  const auto scores = scorer_->score(std::vector<ScoredText>{{likeliest, 10}, {other, 10}});
  EXPECT_TRUE(scores[0].greedy);
  EXPECT_FALSE(scores[1].greedy);
}

TEST_P(ScorerTest, SaysHowFarItIsAndStopsWhenTold) {
  const std::vector<int32_t> tokens = random_tokens(100, 67);
  std::vector<std::vector<int32_t>> texts;
  for (int32_t i = 0; i < 25; ++i) {
    texts.push_back(tokens);
    texts.back().front() = i;
  }
  std::vector<ScoredText> asked;
  for (const auto& text : texts) asked.push_back({text, 1});
  std::vector<double> fractions;
  scorer_->score(asked, [&](double fraction) { fractions.push_back(fraction); });
  ASSERT_EQ(fractions.size(), 3u);  // 25 x 99 rows in passes of 1024
  EXPECT_EQ(fractions[0], 0);
  EXPECT_NEAR(fractions[1], 1024.0 / 2475, 1e-9);
  EXPECT_THROW(scorer_->score(asked, [](double) { throw Error("enough"); }), Error);
}

TEST_P(ScorerTest, RefusesWhatCannotBeScored) {
  const std::vector<int32_t> tokens = random_tokens(kContext + 2, 67);
  const auto all = std::span<const int32_t>(tokens);
  const auto score = [&](ScoredText text) { scorer_->score({&text, 1}); };
  EXPECT_NO_THROW(score({all.first(kContext + 1), kContext}));
  EXPECT_THAT([&] { score({all, 1}); }, ThrowsMessage<Error>(HasSubstr("it may have 151")));
  EXPECT_THAT([&] { score({all.first(5), 5}); }, ThrowsMessage<Error>(HasSubstr("from 5 on")));
  EXPECT_THAT([&] { score({all.first(5), 0}); }, ThrowsMessage<Error>(HasSubstr("from 0 on")));
  const std::vector<int32_t> out_of_range = {1, 67};
  EXPECT_THAT([&] { score({out_of_range, 1}); }, ThrowsMessage<Error>(HasSubstr("token 67")));
}

INSTANTIATE_TEST_SUITE_P(Devices, ScorerTest,
                         testing::Values(config::DeviceChoice::kCpu,
                                         config::DeviceChoice::kTorchCpu),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace thinwire::model
