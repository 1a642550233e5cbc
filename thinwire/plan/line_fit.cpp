#include "thinwire/plan/line_fit.h"

#include <array>
#include <cmath>

namespace thinwire::plan {
namespace {

Interval around(double value, double deviation, size_t freedom) {
  const double reach = student_factor(freedom) * deviation;
  return {value - reach, value + reach};
}

}  // namespace

double student_factor(size_t freedom) {
  constexpr std::array kFactors = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                   2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  if (freedom == 0) return 0;
  if (freedom <= kFactors.size()) return kFactors[freedom - 1];
  return 1.96 + 2.4 / static_cast<double>(freedom);  // to 0.01
}

Interval LineFit::slope_interval() const {
  return around(slope, deviation / std::sqrt(spread_x), points - 2);
}

Interval LineFit::next(double x) const {
  const double from = x - mean_x;
  const double share = 1 + 1 / static_cast<double>(points) + from * from / spread_x;
  return around(at(x), deviation * std::sqrt(share), points - 2);
}

LineFit fit_line(std::span<const Point> points) {
  LineFit fit;
  fit.points = points.size();
  const auto count = static_cast<double>(points.size());
  double mean_y = 0;
  for (const Point& point : points) {
    fit.mean_x += point.x / count;
    mean_y += point.y / count;
  }
  double product = 0;
  for (const Point& point : points) {
    const double from = point.x - fit.mean_x;
    fit.spread_x += from * from;
    product += from * (point.y - mean_y);
  }
  fit.slope = product / fit.spread_x;
  fit.intercept = mean_y - fit.slope * fit.mean_x;
  double squares = 0;
  for (const Point& point : points) squares += std::pow(point.y - fit.at(point.x), 2);
  if (points.size() > 2) fit.deviation = std::sqrt(squares / (count - 2));
  return fit;
}

}  // namespace thinwire::plan
