#include "thinwire/plan/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

namespace thinwire::plan {
namespace {

constexpr int kRounds = 200;
constexpr double kMinProgress = 1e-15;
constexpr double kSameLength = 1.05;
constexpr double kLeastExponent = 0.005;
constexpr double kMostExponent = 2;

// The constants in the form used by the search, and which of them are fitted; the others stay 0.
enum Constant : size_t { kSize, kAlpha, kPerStep, kFloor, kLength, kBeta, kConstants };
using Vector = std::array<double, kConstants>;
using Matrix = std::array<Vector, kConstants>;
using Constants = std::vector<size_t>;

// (Nc / N)^alpha by the logarithm of Nc^alpha.
double power_of(double logarithm, double exponent, double at) {
  return std::exp(logarithm - exponent * std::log(at));
}

// What the law adds for tokens; a law without them has no exponent there.
double power_of_tokens(const Vector& at, const LossPoint& point) {
  return at[kBeta] == 0 ? 0 : power_of(at[kLength], at[kBeta], point.tokens);
}

double loss_of(const Vector& at, const LossPoint& point) {
  return at[kFloor] + at[kPerStep] * point.local_steps +
         power_of(at[kSize], at[kAlpha], point.parameters) + power_of_tokens(at, point);
}

// d log(loss) / d constants.
Vector slope_of(const Vector& at, const LossPoint& point) {
  const double by_size = power_of(at[kSize], at[kAlpha], point.parameters);
  const double by_tokens = power_of_tokens(at, point);
  Vector slope = {by_size, -by_size * std::log(point.parameters), point.local_steps, 1};
  if (by_tokens > 0) {
    slope[kLength] = by_tokens;
    slope[kBeta] = -by_tokens * std::log(point.tokens);
  }
  const double loss = loss_of(at, point);
  for (double& value : slope) value /= loss;
  return slope;
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

// The inverse of the rows and columns of these constants, by Gauss-Jordan elimination with
// pivoting; zero elsewhere.
Matrix inverse(Matrix matrix, const Constants& constants) {
  Matrix result = {};
  for (const size_t i : constants) result[i][i] = 1;
  for (auto left = constants.begin(); left != constants.end(); ++left) {
    const size_t column = *left;
    const size_t pivot = *std::max_element(left, constants.end(), [&](size_t a, size_t b) {
      return std::abs(matrix[a][column]) < std::abs(matrix[b][column]);
    });
    std::swap(matrix[column], matrix[pivot]);
    std::swap(result[column], result[pivot]);
    const double scale = 1 / matrix[column][column];
    for (const size_t i : constants) {
      matrix[column][i] *= scale;
      result[column][i] *= scale;
    }
    for (const size_t row : constants) {
      if (row == column) continue;
      const double factor = matrix[row][column];
      for (const size_t i : constants) {
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
    for (size_t i = 0; i < kConstants; ++i) {
      for (size_t j = 0; j < kConstants; ++j) sum[i][j] += slope[i] * slope[j];
    }
  }
  return sum;
}

// A step of Levenberg and Marquardt's search; the floor stays above 0.
Vector next_of(const Vector& at, double damping, const Constants& constants,
               std::span<const LossPoint> points) {
  Matrix matrix = curvature(at, points);
  for (const size_t i : constants) matrix[i][i] *= 1 + damping;
  const Matrix solve = inverse(matrix, constants);
  Vector gradient = {};
  for (const LossPoint& point : points) {
    const Vector slope = slope_of(at, point);
    const double residual = std::log(point.loss / loss_of(at, point));
    for (const size_t i : constants) gradient[i] += slope[i] * residual;
  }
  Vector next = at;
  for (const size_t i : constants) {
    for (const size_t j : constants) next[i] += solve[i][j] * gradient[j];
  }
  next[kFloor] = std::max(next[kFloor], 0.0);
  return next;
}

Vector search(Vector at, const Constants& constants, std::span<const LossPoint> points) {
  double damping = 1e-3;
  double best = squares(at, points);
  for (int round = 0; round < kRounds && best > kMinProgress * kMinProgress; ++round) {
    const Vector next = next_of(at, damping, constants, points);
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

// log(loss) over log(N) as a straight line: the start of the search, and the law without further
// terms.
Vector straight_line(std::span<const LossPoint> points) {
  std::vector<Point> logarithms;
  for (const LossPoint& point : points) {
    logarithms.push_back({std::log(point.parameters), std::log(point.loss)});
  }
  const LineFit line = fit_line(logarithms);
  return {line.intercept, -line.slope};
}

// Starts from which one or another leads to the best L(N, D): floors and exponents on a grid, as
// Hoffmann et al. start, with what the floor leaves of the mean loss shared by size and tokens.
std::vector<Vector> starts_with_tokens(std::span<const LossPoint> points) {
  double least = HUGE_VAL, mean = 0, size = 0, tokens = 0;
  const auto count = static_cast<double>(points.size());
  for (const LossPoint& point : points) {
    least = std::min(least, point.loss);
    mean += point.loss / count;
    size += std::log(point.parameters) / count;
    tokens += std::log(point.tokens) / count;
  }
  std::vector<Vector> starts;
  for (const double share : {0.1, 0.4, 0.7, 0.9}) {
    for (const double alpha : {0.1, 0.3, 0.6, 1.0}) {
      for (const double beta : {0.1, 0.3, 0.6, 1.0}) {
        const double half = std::log((mean - share * least) / 2);
        starts.push_back(
            {half + alpha * size, alpha, 0, share * least, half + beta * tokens, beta});
      }
    }
  }
  return starts;
}

Vector best_of(const std::vector<Vector>& starts, const Constants& constants,
               std::span<const LossPoint> points) {
  Vector best = {};
  double least = HUGE_VAL;
  for (const Vector& start : starts) {
    const Vector found = search(start, constants, points);
    const double sum = squares(found, points);
    if (sum < least) best = found;
    least = std::min(least, sum);
  }
  return best;
}

void check_positive(const std::string& method, const LossPoint& point) {
  for (const auto& [name, value] :
       {std::pair("loss", point.loss), std::pair("tokens", point.tokens),
        std::pair("parameters without embeddings", point.parameters)}) {
    if (value > 0) continue;
    throw UsageError(fmt::format("{}: {} of a run must be > 0, got {}", method, name, value));
  }
}

// The numbers of tokens, those within 5 % of each other as one: few runs end with exactly as many.
std::vector<double> lengths_of(std::span<const LossPoint> points) {
  std::vector<double> tokens;
  for (const LossPoint& point : points) tokens.push_back(point.tokens);
  std::ranges::sort(tokens);
  std::vector<double> lengths;
  for (const double value : tokens) {
    if (lengths.empty() || value > kSameLength * lengths.back()) lengths.push_back(value);
  }
  return lengths;
}

// The most values that `of` has among the runs with one value of `with`.
template <class Of, class With>
size_t most_values(std::span<const LossPoint> points, const Of& of, const With& with) {
  std::map<double, std::set<double>> values;
  for (const LossPoint& point : points) values[with(point)].insert(of(point));
  size_t most = 0;
  for (const auto& [value, others] : values) most = std::max(most, others.size());
  return most;
}

// Size and tokens can be told apart where both vary without the other.
void check_lengths(const std::string& method, std::span<const LossPoint> points,
                   std::span<const double> lengths, size_t constants) {
  const auto size = [](const LossPoint& point) { return point.parameters; };
  const auto length = [&](const LossPoint& point) {
    return *std::prev(std::ranges::upper_bound(lengths, point.tokens));
  };
  const size_t of_a_size = most_values(points, length, size);
  const size_t of_a_length = most_values(points, size, length);
  if (of_a_size >= 3 && of_a_length >= 3 && points.size() > constants) return;
  throw UsageError(fmt::format(
      "{}: runs of {} to {} tokens need {} runs, among them one size with 3 lengths and one length "
      "with 3 sizes, got {}, at most {} of one size and {} of one length; take more runs, or those "
      "of one length only",
      method, format_count(lengths.front()), format_count(lengths.back()), constants + 1,
      counted(std::ssize(points), "run"), counted(static_cast<int64_t>(of_a_size), "length"),
      counted(static_cast<int64_t>(of_a_length), "size")));
}

// Which constants these runs can tell.
Constants constants_of(const std::string& method, std::span<const LossPoint> points) {
  std::set<double> sizes, steps;
  for (const LossPoint& point : points) {
    check_positive(method, point);
    sizes.insert(point.parameters);
    steps.insert(point.local_steps);
  }
  Constants constants = {kSize, kAlpha};
  if (steps.size() > 1) constants.push_back(kPerStep);
  if (sizes.size() < 2 || points.size() < constants.size()) {
    throw UsageError(
        fmt::format("{}: a fit needs models of at least 2 sizes and {} runs, got {} of {}", method,
                    constants.size(), points.size(), counted(std::ssize(sizes), "size")));
  }
  const std::vector<double> lengths = lengths_of(points);
  if (lengths.size() == 1) return constants;
  constants.insert(constants.end(), {kFloor, kLength, kBeta});
  check_lengths(method, points, lengths, constants.size());
  return constants;
}

// A law whose exponent is at a bound says nothing about other sizes or lengths.
void check_exponent(const std::string& method, const char* name, const char* of, double value) {
  if (value >= kLeastExponent && value <= kMostExponent) return;
  throw UsageError(
      fmt::format("{}: these runs do not tell {}, which came out as {:.3g} and must be from {} to "
                  "{}; take runs "
                  "whose {} differ more, or whose losses vary less by chance",
                  method, name, value, kLeastExponent, kMostExponent, of));
}

void check_told(const FittedLaw& fitted) {
  const std::string& method = fitted.law.method;
  check_exponent(method, "alpha", "sizes", fitted.law.law.exponent);
  if (fitted.has_tokens) check_exponent(method, "beta", "tokens", fitted.law.law.tokens_exponent);
  for (size_t i = 0; i < kConstants; ++i) {
    if (fitted.covariance[i][i] >= 0 && std::isfinite(fitted.covariance[i][i])) continue;
    throw UsageError(fmt::format(
        "{}: these runs do not tell the law's constants apart; take more sizes and lengths",
        method));
  }
}

Interval around(double value, double deviation, double student) {
  return {value - student * deviation, value + student * deviation};
}

Interval interval_of(const FittedLaw& fitted, const Vector& at, Constant constant) {
  return around(at[constant], std::sqrt(fitted.covariance[constant][constant]), fitted.student);
}

// The interval of Nc, whose logarithm is that of Nc^alpha over alpha.
Interval scale_interval(const FittedLaw& fitted, const Vector& at, Constant power,
                        Constant exponent) {
  const auto& covariance = fitted.covariance;
  const double by0 = 1 / at[exponent];
  const double by1 = -at[power] / (at[exponent] * at[exponent]);
  const double variance = by0 * by0 * covariance[power][power] +
                          2 * by0 * by1 * covariance[power][exponent] +
                          by1 * by1 * covariance[exponent][exponent];
  const Interval logarithm =
      around(at[power] / at[exponent], std::sqrt(std::max(0.0, variance)), fitted.student);
  return {std::exp(logarithm.low), std::exp(logarithm.high)};
}

void add_intervals(FittedLaw& fitted, const Vector& at) {
  fitted.exponent = interval_of(fitted, at, kAlpha);
  fitted.scale = scale_interval(fitted, at, kSize, kAlpha);
  fitted.loss_per_local_step = interval_of(fitted, at, kPerStep);
  if (!fitted.has_tokens) return;
  fitted.floor = interval_of(fitted, at, kFloor);
  fitted.tokens_exponent = interval_of(fitted, at, kBeta);
  fitted.tokens_scale = scale_interval(fitted, at, kLength, kBeta);
}

LossLaw law_at(const Vector& at) {
  LossLaw law = {std::exp(at[kSize] / at[kAlpha]), at[kAlpha], at[kFloor]};
  if (at[kBeta] == 0) return law;
  law.tokens_scale = std::exp(at[kLength] / at[kBeta]);
  law.tokens_exponent = at[kBeta];
  return law;
}

Vector constants_at(const MethodLaw& method) {
  const LossLaw& law = method.law;
  Vector at = {law.exponent * std::log(law.scale), law.exponent, method.loss_per_local_step,
               law.floor};
  if (law.tokens_scale == 0) return at;
  at[kLength] = law.tokens_exponent * std::log(law.tokens_scale);
  at[kBeta] = law.tokens_exponent;
  return at;
}

size_t freedom_of(const FittedLaw& fitted) {
  const size_t constants = 2 + (fitted.has_local_steps ? 1 : 0) + (fitted.has_tokens ? 3 : 0);
  return static_cast<size_t>(fitted.points) - constants;
}

// The variance of the logarithm of one run's loss about the law.
double scatter(const FittedLaw& fitted) {
  const size_t freedom = freedom_of(fitted);
  const double sum = fitted.residual * fitted.residual * fitted.points;
  return freedom == 0 ? 0 : sum / static_cast<double>(freedom);
}

}  // namespace

FittedLaw fit_law(const std::string& method, std::span<const LossPoint> points) {
  const Constants constants = constants_of(method, points);
  FittedLaw fitted;
  fitted.has_local_steps = std::ranges::count(constants, kPerStep) > 0;
  fitted.has_tokens = std::ranges::count(constants, kBeta) > 0;
  const std::vector<Vector> starts =
      fitted.has_tokens ? starts_with_tokens(points) : std::vector{straight_line(points)};
  const Vector at = constants.size() == 2 ? starts[0] : best_of(starts, constants, points);
  fitted.law.method = method;
  fitted.law.law = law_at(at);
  fitted.law.loss_per_local_step = at[kPerStep];
  fitted.points = static_cast<int>(points.size());
  fitted.residual = std::sqrt(squares(at, points) / static_cast<double>(points.size()));
  fitted.student = student_factor(freedom_of(fitted));
  fitted.covariance = inverse(curvature(at, points), constants);
  for (Vector& row : fitted.covariance) {
    for (double& value : row) value *= scatter(fitted);
  }
  check_told(fitted);
  add_intervals(fitted, at);
  return fitted;
}

PredictedLoss predict(const FittedLaw& fitted, double parameters, double tokens,
                      double local_steps) {
  const LossPoint point{parameters, tokens, local_steps,
                        fitted.law.loss(parameters, tokens, local_steps)};
  const Vector slope = slope_of(constants_at(fitted.law), point);
  double variance = scatter(fitted);
  for (size_t i = 0; i < kConstants; ++i) {
    for (size_t j = 0; j < kConstants; ++j) {
      variance += slope[i] * fitted.covariance[i][j] * slope[j];
    }
  }
  const double factor = std::exp(fitted.student * std::sqrt(variance));
  return {point.loss, {point.loss / factor, point.loss * factor}};
}

}  // namespace thinwire::plan
