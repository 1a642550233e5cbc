// How well classes of texts are predicted, as GLUE measures it (Wang et al. 2018, arXiv
// 1804.07461):
//   acc  share of texts whose class is the likeliest
//   f1   of two classes: 2 tp / (2 tp + fp + fn), where class 1 is the positive one
//   mcc  of two classes: Matthews's correlation coefficient of true and predicted classes
// A ratio whose denominator is 0 is 0, as in scikit-learn.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace thinwire::eval {

// Counts over texts; those of disjoint sets add up.
struct ClassCounts {
  int64_t classes = 0;  // that the model distinguishes
  int64_t texts = 0;
  int64_t right = 0;
  int64_t true_positive = 0, false_positive = 0, false_negative = 0;  // of class 1

  void add(int64_t truth, int64_t predicted);
  void add(const ClassCounts& other);

  // The metrics that apply to this number of classes, by name. Of at least one text.
  std::vector<std::pair<std::string, double>> metrics() const;
};

// The class with the largest logit; the first of several.
int64_t likeliest_class(std::span<const float> logits);
// Its negative log-likelihood, in nats.
double class_loss(std::span<const float> logits, int64_t truth);

}  // namespace thinwire::eval
