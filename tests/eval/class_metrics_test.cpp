#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "thinwire/eval/metrics.h"

namespace thinwire::eval {
namespace {

std::map<std::string, double> metrics_of(const std::vector<std::pair<int, int>>& truth_predicted,
                                         int64_t classes) {
  ClassCounts counts{.classes = classes};
  for (const auto& [truth, predicted] : truth_predicted) counts.add(truth, predicted);
  const auto metrics = counts.metrics();
  return {metrics.begin(), metrics.end()};
}

// By hand: 3 true and 1 false positive, 2 false and 4 true negatives.
TEST(ClassMetrics, AreThoseOfTheConfusionMatrix) {
  std::vector<std::pair<int, int>> texts;
  for (int i = 0; i < 3; ++i) texts.emplace_back(1, 1);
  texts.emplace_back(0, 1);
  for (int i = 0; i < 2; ++i) texts.emplace_back(1, 0);
  for (int i = 0; i < 4; ++i) texts.emplace_back(0, 0);
  const auto metrics = metrics_of(texts, 2);
  EXPECT_DOUBLE_EQ(metrics.at("acc"), 0.7);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 6.0 / 9);
  EXPECT_NEAR(metrics.at("mcc"), (3 * 4 - 1 * 2) / std::sqrt(4.0 * 5 * 5 * 6), 1e-12);
}

TEST(ClassMetrics, OfMoreClassesAreAccuracyAlone) {
  const auto metrics = metrics_of({{2, 2}, {0, 1}, {1, 1}, {2, 0}}, 3);
  EXPECT_EQ(metrics.size(), 1u);
  EXPECT_DOUBLE_EQ(metrics.at("acc"), 0.5);
}

TEST(ClassMetrics, WithoutPositivesAreZero) {
  const auto metrics = metrics_of({{0, 0}, {0, 0}}, 2);
  EXPECT_EQ(metrics.at("acc"), 1);
  EXPECT_EQ(metrics.at("f1"), 0);
  EXPECT_EQ(metrics.at("mcc"), 0);
}

TEST(ClassMetrics, OfPartsAddUp) {
  ClassCounts all{.classes = 2}, part{.classes = 2};
  all.add(1, 1);
  part.add(0, 1);
  part.add(1, 1);
  all.add(part);
  EXPECT_EQ(all.texts, 3);
  EXPECT_EQ(all.true_positive, 2);
  EXPECT_EQ(all.false_positive, 1);
}

TEST(ClassLoss, IsTheNegativeLogOfTheProbability) {
  const std::vector<float> logits = {1000, 999, 998};
  EXPECT_NEAR(class_loss(logits, 1), std::log(std::exp(1) + 1 + std::exp(-1)), 1e-6);
  EXPECT_EQ(likeliest_class(logits), 0);
}

}  // namespace
}  // namespace thinwire::eval
