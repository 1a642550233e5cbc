#include "thinwire/model/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "thinwire/base/error.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Probabilities 0.5, 0.1, 0.3, 0.1 at temperature 1.
const std::vector<float> kLogits = {std::log(5.0f), 0.0f, std::log(3.0f), 0.0f};

std::map<int32_t, double> frequencies(const SamplerOptions& options) {
  constexpr int kDraws = 20000;
  Sampler sampler(options);
  std::map<int32_t, double> found;
  for (int i = 0; i < kDraws; ++i) found[sampler.next(kLogits)] += 1.0 / kDraws;
  return found;
}

TEST(Sampler, DrawsByProbability) {
  const auto found = frequencies({});
  EXPECT_NEAR(found.at(0), 0.5, 0.02);
  EXPECT_NEAR(found.at(1), 0.1, 0.01);
  EXPECT_NEAR(found.at(2), 0.3, 0.02);
  EXPECT_NEAR(found.at(3), 0.1, 0.01);
}

TEST(Sampler, TemperatureSharpens) {
  const auto found = frequencies({.temperature = 0.5});  // 25 : 1 : 9 : 1
  EXPECT_NEAR(found.at(0), 25.0 / 36, 0.02);
  EXPECT_NEAR(found.at(2), 9.0 / 36, 0.02);
}

TEST(Sampler, TemperatureZeroIsGreedyAndTakesTheLowestOfEquals) {
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.next(kLogits), 0);
  EXPECT_EQ(sampler.next(std::vector<float>{1, 2, 2, 0}), 1);
}

TEST(Sampler, TopKKeepsTheLikeliest) {
  const auto found = frequencies({.top_k = 2});
  EXPECT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(0), 5.0 / 8, 0.02);
  EXPECT_NEAR(found.at(2), 3.0 / 8, 0.02);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(frequencies({.top_p = 0.4}).size(), 1u);
  EXPECT_EQ(frequencies({.top_p = 0.6}).size(), 2u);
  const auto found = frequencies({.top_p = 0.85});  // of the equals 1 and 3 the lower
  EXPECT_EQ(found.size(), 3u);
  EXPECT_NEAR(found.at(1), 1.0 / 9, 0.01);
}

TEST(Sampler, TheSeedDecides) {
  const auto draw = [](uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sampler.next(kLogits));
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, RefusesDamagedLogits) {
  Sampler sampler({});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      [&] {
        sampler.next(std::vector<float>{0, std::nanf("")});
      },
      ThrowsMessage<Error>(HasSubstr("a logit is nan")));
  EXPECT_THAT(
      [&] {
        sampler.next(std::vector<float>{-kInfinity, -kInfinity});
      },
      ThrowsMessage<Error>(HasSubstr("no logit is finite")));
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  EXPECT_THAT([] { Sampler({.temperature = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("temperature must be >= 0, got -1")));
  EXPECT_THAT([] { Sampler({.top_k = -2}); },
              ThrowsMessage<UsageError>(HasSubstr("top-k must be >= 0, got -2")));
  EXPECT_THAT([] { Sampler({.top_p = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("top-p must be above 0 and at most 1, got 0")));
}

}  // namespace
}  // namespace thinwire::model
