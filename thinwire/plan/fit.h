// Scaling laws fitted to finished runs: L(s, N) = alpha_s s + (Nc / N)^alpha (arXiv 2409.13198, eq.
// 3.1 and 3.6) by least squares on the logarithm of the loss.
#pragma once

#include <array>
#include <span>
#include <string>

#include "thinwire/plan/laws.h"

namespace thinwire::plan {

// A finished run.
struct LossPoint {
  double parameters = 0;   // N, without embeddings
  double local_steps = 1;  // s, steps between exchanges
  double loss = 0;         // nats per token
};

// Intervals are from Student's t and the covariance of the linearised problem; of width 0 if there
// are only as many points as constants.
struct FittedLaw {
  MethodLaw law;
  bool joint = false;  // alpha_s was fitted too; else it is 0
  int points = 0;
  double residual = 0;  // root mean square of log(loss / the law's)
  Interval scale;
  Interval exponent;
  Interval loss_per_local_step;
  // Covariance of (log of Nc^alpha, alpha, alpha_s), and Student's factor for intervals.
  std::array<std::array<double, 3>, 3> covariance = {};
  double student = 0;
};

// alpha_s is fitted if the points have several numbers of local steps. Throws UsageError saying
// what is wrong: fewer than two sizes, fewer than three points for the joint form, or a value <= 0.
FittedLaw fit_law(const std::string& method, std::span<const LossPoint> points);

// For a run that was not fitted: its predicted loss, and the range in which 95 % of such runs end.
struct PredictedLoss {
  double loss = 0;
  Interval interval;
};
PredictedLoss predict(const FittedLaw& fitted, double parameters, double local_steps);

}  // namespace thinwire::plan
