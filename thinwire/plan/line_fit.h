// A straight line through points by least squares, and what it says of further points.
#pragma once

#include <cstddef>
#include <span>

namespace thinwire::plan {

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

}  // namespace thinwire::plan
