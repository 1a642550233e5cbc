#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "thinwire/method/privacy/privacy.h"

namespace thinwire::method {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();  // log 0

// log(exp(a) + exp(b)).
double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  if (low == kNothing) return high;
  return high + std::log1p(std::exp(low - high));
}

// log(exp(a) - exp(b)) for a >= b.
double log_sub(double a, double b) {
  if (b == kNothing) return a;
  if (a <= b) return kNothing;  // equal but for rounding
  return a + std::log1p(-std::exp(b - a));
}

// log erfc(x), also where erfc underflows: there by its continued fraction (Abramowitz and Stegun
// 7.1.14).
double log_erfc(double x) {
  constexpr double kLarge = 10;
  if (x < kLarge) return std::log(std::erfc(x));
  double fraction = x;
  for (int k = 60; k >= 1; --k) fraction = x + k / 2.0 / fraction;
  return -x * x - std::log(fraction) - std::log(std::numbers::pi) / 2;
}

// One more coefficient of the binomial series of `order`: its logarithm and its sign.
struct Coefficient {
  double order;
  double log = 0;
  bool positive = true;
  void advance(int i) {
    const double factor = (order - i + 1) / i;
    log += std::log(std::abs(factor));
    positive = positive == (factor > 0);
  }
};

double log_moment_whole(double q, double noise, int order) {
  double sum = kNothing;
  Coefficient coefficient{static_cast<double>(order)};
  for (int i = 0; i <= order; ++i) {
    if (i > 0) coefficient.advance(i);
    const double term = coefficient.log + i * std::log(q) + (order - i) * std::log1p(-q) +
                        (static_cast<double>(i) * i - i) / (2 * noise * noise);
    sum = log_add(sum, term);
  }
  return sum;
}

// The integral in two parts, from minus infinity to z0 and from there on, each a series.
double log_moment_fractional(double q, double noise, double order) {
  constexpr double kNegligible = -30;
  const double z0 = noise * noise * std::log(1 / q - 1) + 0.5;
  const double spread = std::numbers::sqrt2 * noise, two_variances = 2 * noise * noise;
  double below = kNothing, above = kNothing;
  Coefficient coefficient{order};
  for (int i = 0;; ++i) {
    if (i > 0) coefficient.advance(i);
    const double j = order - i;
    const double in_below = coefficient.log + i * std::log(q) + j * std::log1p(-q) +
                            (static_cast<double>(i) * i - i) / two_variances +
                            log_erfc((i - z0) / spread) - std::numbers::ln2;
    const double in_above = coefficient.log + j * std::log(q) + i * std::log1p(-q) +
                            (j * j - j) / two_variances + log_erfc((z0 - j) / spread) -
                            std::numbers::ln2;
    below = coefficient.positive ? log_add(below, in_below) : log_sub(below, in_below);
    above = coefficient.positive ? log_add(above, in_above) : log_sub(above, in_above);
    if (std::max(in_below, in_above) < kNegligible) return log_add(below, above);
  }
}

std::vector<double> orders() {
  std::vector<double> all;
  for (int tenths = 11; tenths < 110; ++tenths) all.push_back(tenths / 10.0);
  for (int order = 12; order < 64; ++order) all.push_back(order);
  return all;
}

}  // namespace

double renyi_divergence(const GaussianMechanism& mechanism, double order) {
  const auto [noise, q] = mechanism;
  if (noise == 0) return std::numeric_limits<double>::infinity();
  if (q == 1) return order / (2 * noise * noise);
  const bool whole = order == std::floor(order);
  const double log_moment = whole ? log_moment_whole(q, noise, static_cast<int>(order))
                                  : log_moment_fractional(q, noise, order);
  return log_moment / (order - 1);
}

double epsilon_of(const GaussianMechanism& mechanism, uint64_t times, double delta) {
  if (times == 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const double order : orders()) {
    const double divergence = static_cast<double>(times) * renyi_divergence(mechanism, order);
    least = std::min(least, divergence - (std::log(delta) + std::log(order)) / (order - 1) +
                                std::log((order - 1) / order));
  }
  return std::max(least, 0.0);
}

}  // namespace thinwire::method
