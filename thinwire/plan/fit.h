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
  double loss = 0;         // nats a token
};

// 95 % by Student's t and the covariance of the linearised problem; without width where there are
// as many points as constants.
struct Interval {
  double low = 0;
  double high = 0;
};

struct FittedLaw {
  MethodLaw law;
  bool joint = false;  // alpha_s was fitted too; else it is 0
  int points = 0;
  double residual = 0;  // root mean square of log(loss) over the law's
  Interval scale;
  Interval exponent;
  Interval loss_per_local_step;
  // Covariance of (log of Nc^alpha, alpha, alpha_s), and Student's factor for it.
  std::array<std::array<double, 3>, 3> covariance = {};
  double student = 0;
};

// alpha_s is fitted where the points have several numbers of local steps. Throws UsageError that
// says what is missing: two sizes, three points for the joint form, or a value that is not > 0.
FittedLaw fit_law(const std::string& method, std::span<const LossPoint> points);

// Of a run that the law has not seen: its loss, and where 95 % of such runs end.
struct PredictedLoss {
  double loss = 0;
  Interval interval;
};
PredictedLoss predict(const FittedLaw& fitted, double parameters, double local_steps);

}  // namespace thinwire::plan
