// How well numbers are predicted (regression), as GLUE measures it (Wang et al. 2018, arXiv
// 1804.07461): Pearson's and Spearman's correlation of true and predicted numbers. Where either
// does not vary the correlation is 0.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace thinwire::eval {

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

// Of pairs (true, predicted): Pearson's correlation of the ranks, where equal numbers share the
// mean of their ranks.
double spearman(const std::vector<std::pair<double, double>>& pairs);

}  // namespace thinwire::eval
