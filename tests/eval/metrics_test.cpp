#include "thinwire/eval/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::eval {
namespace {

Item item(int64_t answer, std::vector<int64_t> lengths) {
  Item made;
  made.answer = answer;
  for (const int64_t length : lengths) made.choices.push_back({"", "", length});
  return made;
}

double metric(const std::string& name, const Item& item, const std::vector<model::Score>& scores) {
  std::vector<MetricSum> sums = {{name, 0, 0}};
  add_item(item, scores, sums);
  return sums[0].sum;
}

TEST(Metrics, TheRightChoiceIsTheLikeliestOrTheLikeliestForItsLength) {
  const std::vector<model::Score> scores = {{-4, false}, {-5, false}, {-6, false}};
  EXPECT_EQ(metric("acc", item(0, {2, 2, 6}), scores), 1);
  EXPECT_EQ(metric("acc_norm", item(0, {2, 2, 6}), scores), 0);
  EXPECT_EQ(metric("acc_norm", item(2, {2, 2, 6}), scores), 1);
}

TEST(Metrics, TheFirstOfEqualChoicesCounts) {
  const std::vector<model::Score> scores = {{-4, false}, {-4, false}};
  EXPECT_EQ(metric("acc", item(0, {1, 1}), scores), 1);
  EXPECT_EQ(metric("acc_norm", item(1, {1, 1}), scores), 0);
}

TEST(Metrics, WithoutChoicesAGreedyContinuationIsRight) {
  EXPECT_EQ(metric("acc", item(-1, {4}), {{-2, true}}), 1);
  EXPECT_EQ(metric("acc", item(-1, {4}), {{-1, false}}), 0);
}

TEST(Metrics, ValuesFollowFromSums) {
  const MetricSum accuracy = {"acc", 3, 4};
  EXPECT_EQ(accuracy.value(), 0.75);
  EXPECT_NEAR(accuracy.standard_error(), std::sqrt(0.75 * 0.25 / 3), 1e-12);
  EXPECT_NEAR((MetricSum{"perplexity", -6, 3}.value()), std::exp(2), 1e-12);
  EXPECT_TRUE(std::isnan(MetricSum{"perplexity", -6, 3}.standard_error()));
  const auto text = text_metrics(-20, 4, 10);
  EXPECT_NEAR(text[0].value(), std::exp(5), 1e-9);
  EXPECT_NEAR(text[1].value(), std::exp(2), 1e-12);
  EXPECT_NEAR(text[2].value(), 2 / std::log(2), 1e-12);
}

}  // namespace
}  // namespace thinwire::eval
