#include "thinwire/eval/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
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

}  // namespace thinwire::eval
