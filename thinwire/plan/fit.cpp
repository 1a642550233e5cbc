#include "thinwire/plan/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

constexpr int kRounds = 200;
constexpr double kMinProgress = 1e-15;

// The constants in the form used by the search: (log of Nc^alpha, alpha, alpha_s).
using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

double power_of(const Vector& at, double parameters) {
  return std::exp(at[0] - at[1] * std::log(parameters));
}

double loss_of(const Vector& at, const LossPoint& point) {
  return at[2] * point.local_steps + power_of(at, point.parameters);
}

// d log(loss) / d constants.
Vector slope_of(const Vector& at, const LossPoint& point) {
  const double power = power_of(at, point.parameters);
  const double loss = at[2] * point.local_steps + power;
  return {power / loss, -power * std::log(point.parameters) / loss, point.local_steps / loss};
}

double squares(const Vector& at, std::span<const LossPoint> points) {
  double sum = 0;
  for (const LossPoint& point : points) {
    const double loss = loss_of(at, point);
    if (!(loss > 0)) return HUGE_VAL;
    sum += std::pow(std::log(point.loss / loss), 2);
  }
  return sum;
}

// The inverse of the leading `size` rows and columns, by Gauss-Jordan elimination with pivoting;
// zero elsewhere.
Matrix inverse(Matrix matrix, size_t size) {
  Matrix result = {};
  for (size_t i = 0; i < size; ++i) result[i][i] = 1;
  for (size_t column = 0; column < size; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < size; ++row) {
      if (std::abs(matrix[row][column]) > std::abs(matrix[pivot][column])) pivot = row;
    }
    std::swap(matrix[column], matrix[pivot]);
    std::swap(result[column], result[pivot]);
    const double scale = 1 / matrix[column][column];
    for (size_t i = 0; i < size; ++i) {
      matrix[column][i] *= scale;
      result[column][i] *= scale;
    }
    for (size_t row = 0; row < size; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column];
      for (size_t i = 0; i < size; ++i) {
        matrix[row][i] -= factor * matrix[column][i];
        result[row][i] -= factor * result[column][i];
      }
    }
  }
  return result;
}

Matrix curvature(const Vector& at, std::span<const LossPoint> points) {
  Matrix sum = {};
  for (const LossPoint& point : points) {
    const Vector slope = slope_of(at, point);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) sum[i][j] += slope[i] * slope[j];
    }
  }
  return sum;
}

// Levenberg-Marquardt search over the first `size` constants.
Vector search(Vector at, size_t size, std::span<const LossPoint> points) {
  double damping = 1e-3;
  double best = squares(at, points);
  for (int round = 0; round < kRounds && best > kMinProgress * kMinProgress; ++round) {
    Matrix matrix = curvature(at, points);
    for (size_t i = 0; i < size; ++i) matrix[i][i] *= 1 + damping;
    const Matrix solve = inverse(matrix, size);
    Vector gradient = {};
    for (const LossPoint& point : points) {
      const Vector slope = slope_of(at, point);
      const double residual = std::log(point.loss / loss_of(at, point));
      for (size_t i = 0; i < size; ++i) gradient[i] += slope[i] * residual;
    }
    Vector next = at;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) next[i] += solve[i][j] * gradient[j];
    }
    const double sum = squares(next, points);
    if (!(sum < best)) {
      damping *= 10;
      continue;
    }
    at = next;
    best = sum;
    damping /= 10;
  }
  return at;
}

// log(loss) over log(N) as a straight line: the start of the search, and the law without alpha_s.
Vector straight_line(std::span<const LossPoint> points) {
  std::vector<Point> logarithms;
  for (const LossPoint& point : points) {
    logarithms.push_back({std::log(point.parameters), std::log(point.loss)});
  }
  const LineFit line = fit_line(logarithms);
  return {line.intercept, -line.slope, 0};
}

size_t check(const std::string& method, std::span<const LossPoint> points) {
  std::set<double> sizes;
  std::set<double> steps;
  for (const LossPoint& point : points) {
    for (const auto& [name, value] :
         {std::pair("loss", point.loss),
          std::pair("parameters without embeddings", point.parameters)}) {
      if (value > 0) continue;
      throw UsageError(fmt::format("{}: {} of a run must be > 0, got {}", method, name, value));
    }
    sizes.insert(point.parameters);
    steps.insert(point.local_steps);
  }
  const size_t constants = steps.size() > 1 ? 3 : 2;
  if (sizes.size() < 2 || points.size() < constants) {
    throw UsageError(fmt::format(
        "{}: a fit needs models of at least 2 sizes and {} runs, got {} of {}", method, constants,
        points.size(), sizes.size() == 1 ? "one size" : fmt::format("{} sizes", sizes.size())));
  }
  return constants;
}

Interval around(double value, double deviation, double student) {
  return {value - student * deviation, value + student * deviation};
}

void add_intervals(FittedLaw& fitted, const Vector& at) {
  const auto& covariance = fitted.covariance;
  fitted.exponent = around(at[1], std::sqrt(covariance[1][1]), fitted.student);
  fitted.loss_per_local_step = around(at[2], std::sqrt(covariance[2][2]), fitted.student);
  // log Nc = at[0] / at[1]
  const double by0 = 1 / at[1];
  const double by1 = -at[0] / (at[1] * at[1]);
  const double variance = by0 * by0 * covariance[0][0] + 2 * by0 * by1 * covariance[0][1] +
                          by1 * by1 * covariance[1][1];
  const Interval log_scale =
      around(at[0] / at[1], std::sqrt(std::max(0.0, variance)), fitted.student);
  fitted.scale = {std::exp(log_scale.low), std::exp(log_scale.high)};
}

}  // namespace

FittedLaw fit_law(const std::string& method, std::span<const LossPoint> points) {
  const size_t constants = check(method, points);
  Vector at = straight_line(points);
  if (constants == 3) at = search(at, constants, points);
  const size_t freedom = points.size() - constants;
  const double sum = squares(at, points);

  FittedLaw fitted;
  fitted.law.method = method;
  fitted.law.scale = std::exp(at[0] / at[1]);
  fitted.law.exponent = at[1];
  fitted.law.loss_per_local_step = at[2];
  fitted.joint = constants == 3;
  fitted.points = static_cast<int>(points.size());
  fitted.residual = std::sqrt(sum / static_cast<double>(points.size()));
  fitted.student = student_factor(freedom);
  fitted.covariance = inverse(curvature(at, points), constants);
  const double variance = freedom == 0 ? 0 : sum / static_cast<double>(freedom);
  for (Vector& row : fitted.covariance) {
    for (double& value : row) value *= variance;
  }
  add_intervals(fitted, at);
  return fitted;
}

PredictedLoss predict(const FittedLaw& fitted, double parameters, double local_steps) {
  const MethodLaw& law = fitted.law;
  const Vector at = {law.exponent * std::log(law.scale), law.exponent, law.loss_per_local_step};
  const LossPoint point{parameters, local_steps, law.loss(parameters, local_steps)};
  const Vector slope = slope_of(at, point);
  const int freedom = fitted.points - (fitted.joint ? 3 : 2);
  double variance = freedom == 0 ? 0 : fitted.residual * fitted.residual * fitted.points / freedom;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) variance += slope[i] * fitted.covariance[i][j] * slope[j];
  }
  const double factor = std::exp(fitted.student * std::sqrt(variance));
  return {point.loss, {point.loss / factor, point.loss * factor}};
}

}  // namespace thinwire::plan
