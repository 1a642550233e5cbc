#include "thinwire/eval/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>

#include "thinwire/base/error.h"

namespace thinwire::eval {
namespace {

constexpr std::array<const char*, 2> kOfChoices = {"acc", "acc_norm"};
constexpr std::array<const char*, 2> kOfContinuations = {"acc", "perplexity"};
constexpr std::array<const char*, 2> kOfPlans = {kPlanGraph, kPlanExact};
constexpr std::array<const char*, 3> kOfClasses = {"acc", "f1", "mcc"};
constexpr std::array<const char*, 2> kOfNumbers = {"pearson", "spearman"};

// The metrics of a kind of tasks, and what errors call these.
struct KnownMetrics {
  std::span<const char* const> names;
  const char* of;
};

KnownMetrics known_metrics(TaskKind kind) {
  switch (kind) {
    case TaskKind::kChoices:
      return {kOfChoices, "choices"};
    case TaskKind::kPlan:
      return {kOfPlans, "plans"};
    case TaskKind::kClass:
      return {kOfClasses, "classes"};
    case TaskKind::kNumber:
      return {kOfNumbers, "numbers (an answer without labels)"};
    case TaskKind::kContinuation:
      break;
  }
  return {kOfContinuations, "continuations without an answer"};
}

// Whether a metric is a share of items.
bool is_share(const std::string& name) {
  return name.starts_with("acc") || name.starts_with("plan_");
}

bool is_correlation(const std::string& name) {
  return name == "mcc" || name == "pearson" || name == "spearman";
}

bool is_right(const std::string& metric, const Item& item,
              const std::vector<model::Score>& scores) {
  if (item.answer < 0) return scores.front().greedy;
  const size_t chosen = metric == "acc_norm" ? likeliest_norm(item, scores) : likeliest(scores);
  return static_cast<int64_t>(chosen) == item.answer;
}

}  // namespace

double MetricSum::value() const {
  const double mean = sum / weight;
  if (is_share(name) || name == "f1" || is_correlation(name)) return mean;
  return name == "bits_per_byte" ? -mean / std::numbers::ln2 : std::exp(-mean);
}

double MetricSum::standard_error() const {
  if (!is_share(name) || weight < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean = value();
  return std::sqrt(mean * (1 - mean) / (weight - 1));
}

void check_metrics(const std::vector<std::string>& names, TaskKind kind) {
  const KnownMetrics known = known_metrics(kind);
  for (const std::string& name : names) {
    if (std::ranges::find(known.names, name) != known.names.end()) continue;
    throw UsageError(fmt::format("metrics has '{}'; {} have {}", name, known.of,
                                 fmt::join(known.names, " and ")));
  }
}

size_t likeliest(const std::vector<model::Score>& scores) {
  const auto best = std::ranges::max_element(scores, {}, &model::Score::log_likelihood);
  return static_cast<size_t>(best - scores.begin());
}

size_t likeliest_norm(const Item& item, const std::vector<model::Score>& scores) {
  size_t best = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < scores.size(); ++i) {
    const double value = scores[i].log_likelihood / static_cast<double>(item.choices[i].characters);
    if (value > highest) {
      highest = value;
      best = i;
    }
  }
  return best;
}

void add_item(const Item& item, const std::vector<model::Score>& scores,
              std::vector<MetricSum>& sums) {
  for (MetricSum& metric : sums) {
    metric.weight += 1;
    if (is_share(metric.name)) {
      metric.sum += is_right(metric.name, item, scores) ? 1 : 0;
    } else {
      metric.sum += scores.front().log_likelihood;
    }
  }
}

std::vector<MetricSum> text_metrics(double log_likelihood, int64_t words, int64_t bytes) {
  return {{"word_perplexity", log_likelihood, static_cast<double>(words)},
          {"byte_perplexity", log_likelihood, static_cast<double>(bytes)},
          {"bits_per_byte", log_likelihood, static_cast<double>(bytes)}};
}

namespace {

double ratio(double of, double to) { return to == 0 ? 0 : of / to; }

}  // namespace

void ClassCounts::add(int64_t truth, int64_t predicted) {
  ++texts;
  right += truth == predicted ? 1 : 0;
  true_positive += truth == 1 && predicted == 1 ? 1 : 0;
  false_positive += truth != 1 && predicted == 1 ? 1 : 0;
  false_negative += truth == 1 && predicted != 1 ? 1 : 0;
}

void ClassCounts::add(const ClassCounts& other) {
  classes = std::max(classes, other.classes);
  texts += other.texts;
  right += other.right;
  true_positive += other.true_positive;
  false_positive += other.false_positive;
  false_negative += other.false_negative;
}

std::vector<std::pair<std::string, double>> ClassCounts::metrics() const {
  std::vector<std::pair<std::string, double>> all = {
      {"acc", static_cast<double>(right) / static_cast<double>(texts)}};
  if (classes != 2) return all;
  const auto tp = static_cast<double>(true_positive), fp = static_cast<double>(false_positive);
  const auto fn = static_cast<double>(false_negative);
  const double tn = static_cast<double>(texts) - tp - fp - fn;
  all.emplace_back("f1", ratio(2 * tp, 2 * tp + fp + fn));
  all.emplace_back(
      "mcc", ratio(tp * tn - fp * fn, std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))));
  return all;
}

int64_t likeliest_class(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

double class_loss(std::span<const float> logits, int64_t truth) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(truth)];
}

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
