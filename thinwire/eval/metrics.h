// What an evaluation reports, as the LM evaluation harness defines it:
//   acc              share of items whose right choice is the likeliest; of items without choices,
//                    share whose continuation is the likeliest token at each place
//   acc_norm         the same by log-likelihood over the continuation's characters
//   perplexity       exp(-mean log-likelihood of the continuations)
// of generated plans, as TinyAgent does (plan_score.h):
//   plan_graph       share of plans with the same tools and dependencies as the right one
//   plan_exact       share of those with the same arguments in addition
// of classes, as GLUE does: acc, f1 and mcc;
// of numbers: pearson and spearman;
// and of whole texts, with sums over all texts:
//   word_perplexity  exp(-log-likelihood / words)
//   byte_perplexity  exp(-log-likelihood / bytes)
//   bits_per_byte    -log-likelihood / bytes / ln 2
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/eval/items.h"
#include "thinwire/model/scorer.h"

namespace thinwire::eval {

inline constexpr const char* kPlanGraph = "plan_graph";
inline constexpr const char* kPlanExact = "plan_exact";

// A metric's sum over some items. Sums over disjoint sets of items add up; the metric is a function
// of sum / weight.
struct MetricSum {
  std::string name;
  double sum = 0;
  double weight = 0;

  double value() const;
  // Standard error of a share (of acc, acc_norm, plan_graph, plan_exact) among `weight` items; NaN
  // for other metrics.
  double standard_error() const;
};

// Throws UsageError for an unknown metric, and for one that does not apply to tasks of this kind.
void check_metrics(const std::vector<std::string>& names, TaskKind kind);

// The likeliest choice; the first of several that are equally likely.
size_t likeliest(const std::vector<model::Score>& scores);
// The likeliest choice relative to its length in characters.
size_t likeliest_norm(const Item& item, const std::vector<model::Score>& scores);

// Adds an item's part, given the scores of its choices, to the metrics of its task.
void add_item(const Item& item, const std::vector<model::Score>& scores,
              std::vector<MetricSum>& sums);

// The metrics of texts with this log-likelihood, words and bytes in all.
std::vector<MetricSum> text_metrics(double log_likelihood, int64_t words, int64_t bytes);

// How well classes of texts are predicted, as GLUE measures it (Wang et al. 2018, arXiv
// 1804.07461):
//   acc  share of texts whose class is the likeliest
//   f1   of two classes: 2 tp / (2 tp + fp + fn), where class 1 is the positive one
//   mcc  of two classes: Matthews's correlation coefficient of true and predicted classes
// A ratio whose denominator is 0 is 0, as in scikit-learn.

// Counts over texts; those of disjoint sets add up.
struct ClassCounts {
  int64_t classes = 0;  // that the model distinguishes
  int64_t texts = 0;
  int64_t right = 0;
  int64_t true_positive = 0, false_positive = 0, false_negative = 0;  // of class 1

  void add(int64_t truth, int64_t predicted);
  void add(const ClassCounts& other);

  // The metrics that apply to this number of classes, by name. There must be at least one text.
  std::vector<std::pair<std::string, double>> metrics() const;
};

// The class with the largest logit; the first of several.
int64_t likeliest_class(std::span<const float> logits);
// Its negative log-likelihood, in nats.
double class_loss(std::span<const float> logits, int64_t truth);

// How well numbers are predicted (regression), as GLUE measures it (Wang et al. 2018, arXiv
// 1804.07461): Pearson's and Spearman's correlation of true and predicted numbers. Where either
// does not vary the correlation is 0.

// Moments of true and predicted numbers; those of disjoint sets add up (Chan, Golub and LeVeque
// 1979).
struct NumberMoments {
  int64_t texts = 0;
  double true_mean = 0, predicted_mean = 0;
  double true_square = 0, predicted_square = 0, product = 0;  // sums about the means

  void add(double truth, double predicted) { add({1, truth, predicted}); }
  void add(const NumberMoments& other);
  double pearson() const;
  // pearson by its name. Spearman's, which needs all numbers at once, is not among them.
  std::vector<std::pair<std::string, double>> metrics() const { return {{"pearson", pearson()}}; }
};

// For pairs (true, predicted): Pearson's correlation of the ranks, where equal numbers share the
// mean of their ranks.
double spearman(const std::vector<std::pair<double, double>>& pairs);

}  // namespace thinwire::eval
