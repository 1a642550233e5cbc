// Elementary functions for whatever replicas must agree on: the same bits from every compiler and
// on every processor, which no library promises. A fixed graph of float64 additions,
// multiplications and divisions, each correctly rounded and none fused (FMA contraction is off in
// the whole build). Errors are below 0.9 units in the last place. Pure functions; any thread may
// call them.
//
// tests/golden/make_maths.py defines both graphs and compares them with exact values. Any change to
// a result's bits must raise kNumericsVersion (checkpoint/checkpoint.h).
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace thinwire::maths {

// cos(pi x) for |x| <= 2^50; exact at multiples of 1/2.
double cos_pi(double x);

// The natural logarithm of a normal number x > 0.
double log(double x);

}  // namespace thinwire::maths

namespace thinwire {

// The median; of an even number of values the mean of the middle two. At least one value.
inline double median_of(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace thinwire
