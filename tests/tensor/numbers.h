// Random matrices, their roundings, and derivatives by finite differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/rng.h"

namespace thinwire::tensor {

using Matrix = std::vector<double>;

inline float rounded(float value, float) { return value; }
inline Bf16 rounded(float value, Bf16) { return to_bf16(value); }
inline double widened(float value) { return value; }
inline double widened(Bf16 value) { return to_float(value); }

// Standard normal values, rounded to T, so that float, Bf16 and double copies hold the same
// numbers.
template <typename T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = rounded(static_cast<float>(rng.normal()), T());
  return values;
}

template <typename T>
Matrix widen(const std::vector<T>& values) {
  Matrix out;
  for (const T value : values) out.push_back(widened(value));
  return out;
}

// The largest difference over the largest expected value.
template <typename T>
double error(const std::vector<T>& got, const Matrix& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance = std::abs(widened(got[i]) - expected[i]);
    if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, distance);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

// d f / d x for each element of x, by central differences.
inline Matrix derivative(Matrix x, const std::function<double(const Matrix&)>& f) {
  constexpr double kStep = 1e-5;
  Matrix out;
  for (double& value : x) {
    const double middle = value;
    value = middle + kStep;
    const double above = f(x);
    value = middle - kStep;
    out.push_back((above - f(x)) / (2 * kStep));
    value = middle;
  }
  return out;
}

inline double dot(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Tolerance for results rounded to T, or computed from operands rounded to T.
template <typename T>
constexpr double kBound = 1e-5;
template <>
inline constexpr double kBound<Bf16> = 1e-2;

}  // namespace thinwire::tensor
