// What an evaluation reports, as the LM evaluation harness defines it:
//   acc              share of items whose right choice is the likeliest; of items without choices,
//                    share whose continuation is the likeliest token at each place
//   acc_norm         the same by log-likelihood over the continuation's characters
//   perplexity       exp(-mean log-likelihood of the continuations)
// of generated plans, as TinyAgent does (plan_score.h):
//   plan_graph       share of plans with the same tools and dependencies as the right one
//   plan_exact       share of those with the same arguments in addition
// of classes, as GLUE does: acc, f1 and mcc (class_metrics.h);
// of numbers: pearson and spearman (number_metrics.h);
// and of whole texts, with sums over all texts:
//   word_perplexity  exp(-log-likelihood / words)
//   byte_perplexity  exp(-log-likelihood / bytes)
//   bits_per_byte    -log-likelihood / bytes / ln 2
#pragma once

#include <cstdint>
#include <string>
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

}  // namespace thinwire::eval
