// Scaling laws fitted to the user's own runs (thinwire plan fit --save), which take the place of
// the scaling-law paper's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/plan/scaling.h"

namespace thinwire::plan {

// A straight line through points by least squares, and what it says of further points.
struct Point {
  double x = 0;
  double y = 0;
};

// 95 %.
struct Interval {
  double low = 0;
  double high = 0;
};

// The 97.5th percentile of Student's t; 0 without degrees of freedom.
double student_factor(size_t freedom);

// y = intercept + slope x.
struct LineFit {
  double intercept = 0;
  double slope = 0;
  size_t points = 0;
  double mean_x = 0;
  double spread_x = 0;   // sum of (x - mean_x)^2
  double deviation = 0;  // standard deviation of a point from the line; 0 for two points

  double at(double x) const { return intercept + slope * x; }
  // The slopes that the points allow, and where 95 % of further points at x lie.
  Interval slope_interval() const;
  Interval next(double x) const;
};

// At least two different values of x.
LineFit fit_line(std::span<const Point> points);

// A table [[law]] of a file of constants: loss = loss_per_local_step s + L(N, D).
struct MethodLaw final : config::SectionOf<MethodLaw> {
  std::string method;  // a value of sync.method
  LossLaw law;
  double loss_per_local_step = 0;
  double loss(double parameters, double tokens, double local_steps) const;
  void describe(config::Fields& fields) override;
};

// Throws UsageError naming file, line and field.
std::vector<MethodLaw> load_laws(const std::filesystem::path& file);
// Replaces the file's content. Appears whole or not at all.
void save_laws(const std::filesystem::path& file, std::span<const MethodLaw> laws);

// The paper's laws, with those for "allreduce" and "local_sgd" (or "diloco") replaced by the
// user's.
LossLaws with_own(LossLaws laws, std::span<const MethodLaw> own);

// The law of a method; null if there is none.
const MethodLaw* find_law(std::span<const MethodLaw> laws, std::string_view method);

}  // namespace thinwire::plan
