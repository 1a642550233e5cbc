// Scaling laws fitted to finished runs, by least squares on the logarithm of the loss:
//
//   L(N)        (Nc / N)^alpha                        arXiv 2409.13198, eq. 3.1
//   L(s, N)     alpha_s s + L(N)                      eq. 3.6, where the runs' local steps differ
//   L(N, D)     E + (Nc / N)^alpha + (Dc / D)^beta    arXiv 2203.15556, eq. 2, where their tokens
//   do L(s, N, D)  alpha_s s + L(N, D)                   where both do
#pragma once

#include <array>
#include <span>
#include <string>

#include "thinwire/plan/laws.h"

namespace thinwire::plan {

// A finished run.
struct LossPoint {
  double parameters = 0;   // N, without embeddings
  double tokens = 0;       // D, of the whole run
  double local_steps = 1;  // s, steps between exchanges
  double loss = 0;         // nats per token
};

// Intervals are from Student's t and the covariance of the linearised problem; of width 0 if there
// are only as many points as constants.
struct FittedLaw {
  MethodLaw law;
  bool has_local_steps = false;  // alpha_s was fitted too; else it is 0
  bool has_tokens = false;       // so were E, Dc and beta; else E and Dc are 0
  int points = 0;
  double residual = 0;  // root mean square of log(loss / the law's)
  Interval scale;
  Interval exponent;
  Interval loss_per_local_step;
  Interval floor;
  Interval tokens_scale;
  Interval tokens_exponent;
  // Covariance of (log of Nc^alpha, alpha, alpha_s, E, log of Dc^beta, beta), 0 for what was not
  // fitted, and Student's factor for intervals.
  std::array<std::array<double, 6>, 6> covariance = {};
  double student = 0;
};

// Numbers of tokens within 5 % of each other count as one length. Throws UsageError saying what is
// wrong: fewer than two sizes, fewer points than constants, a value <= 0, runs of several lengths
// among which no size has three and no length has three sizes, or runs that do not tell a constant
// (alpha or beta outside 0.005 to 2).
FittedLaw fit_law(const std::string& method, std::span<const LossPoint> points);

// For a run that was not fitted: its predicted loss, and the range in which 95 % of such runs end.
struct PredictedLoss {
  double loss = 0;
  Interval interval;
};
PredictedLoss predict(const FittedLaw& fitted, double parameters, double tokens,
                      double local_steps);

}  // namespace thinwire::plan
