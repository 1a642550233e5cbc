#include "thinwire/eval/number_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thinwire::eval {
namespace {

std::vector<double> ranks_of(const std::vector<double>& numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return numbers[i]; });
  std::vector<double> ranks(numbers.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    const double shared = static_cast<double>(first + end - 1) / 2;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = shared;
  }
  return ranks;
}

}  // namespace

void NumberMoments::add(const NumberMoments& other) {
  if (other.texts == 0) return;
  const auto here = static_cast<double>(texts), there = static_cast<double>(other.texts);
  const double both = here + there, weight = here * there / both;
  const double true_step = other.true_mean - true_mean;
  const double predicted_step = other.predicted_mean - predicted_mean;
  true_square += other.true_square + weight * true_step * true_step;
  predicted_square += other.predicted_square + weight * predicted_step * predicted_step;
  product += other.product + weight * true_step * predicted_step;
  true_mean += true_step * there / both;
  predicted_mean += predicted_step * there / both;
  texts += other.texts;
}

double NumberMoments::pearson() const {
  if (true_square == 0 || predicted_square == 0) return 0;
  return product / (std::sqrt(true_square) * std::sqrt(predicted_square));
}

double spearman(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> truths, predictions;
  for (const auto& [truth, predicted] : pairs) {
    truths.push_back(truth);
    predictions.push_back(predicted);
  }
  const std::vector<double> first = ranks_of(truths), second = ranks_of(predictions);
  NumberMoments moments;
  for (size_t i = 0; i < pairs.size(); ++i) moments.add(first[i], second[i]);
  return moments.pearson();
}

}  // namespace thinwire::eval
