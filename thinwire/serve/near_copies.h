// Tells a payload that was made from another member's from honest ones that resemble each other.
//
// Model: what members send has a part in common, and noise that is independent between members and
// whose variance is s times the common part's square, over the member's rows. Then
//   1 / cos^2 = (1 + s / rows_a) (1 + s / rows_b),
// so that the cosine of every pair shows an s, and honest pairs show about the same one. Whoever
// changes a few of another's values shows with it a much smaller one. s is taken with the members'
// rows, and with as many for all, in case noise does not depend on rows; both must say so.
//
// Rule: a pair is one of near copies if its cosine is above kNearCosine and ln(s) is, for both of
// them, below the median of the ln(s) with all others by more than max(ln kNoiseRatio,
// kNoiseSpreads * 1.4826 * MAD). As each of two honest members that resemble each other resembles
// all other honest ones, too, it takes half of the members to make them appear as copies. With
// three payloads there is no telling which one is the odd one, and the rule never applies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "thinwire/base/maths.h"

namespace thinwire::serve {

// How far from the others a value may lie before it is an outlier (Leys et al. 2013, "Detecting
// outliers: Do not use standard deviation around the mean, use absolute deviation around the
// median").
struct TypicalRange {
  double middle = 0;  // the median
  double limit = 0;   // the farthest from it
};

// The range of logarithms, at least one: limit = max(ln ratio, spreads * 1.4826 * MAD). 1.4826 is
// what makes the MAD of a normal distribution its standard deviation.
inline TypicalRange typical_range(std::vector<double> logs, double ratio, double spreads) {
  const double middle = median_of(logs);
  for (double& log : logs) log = std::abs(log - middle);
  return {middle, std::max(std::log(ratio), spreads * 1.4826 * median_of(std::move(logs)))};
}

inline constexpr double kNearCosine = 0.9;
inline constexpr double kNoiseRatio = 10;
inline constexpr double kNoiseSpreads = 6;

// What is compared of a payload. Refers to what must outlive it.
struct Compared {
  std::span<const float> direction;  // of its values (codec/value_sketch.h), not empty
  double rows = 1;                   // of its member in the round, above 0
};

// The s of a pair; cosines below 0.05 count as 0.05, and s below 1e-6 as 1e-6.
double noise_of_a_row(double cosine, double rows_a, double rows_b);

// Compares one payload with the others of its operation.
class Resemblance {
 public:
  // `own` is an index into `all`, which must outlive this.
  Resemblance(std::span<const Compared> all, size_t own);

  double cosine_with(size_t other) const { return cosines_[other]; }
  // Whether the two are near copies of each other.
  bool is_near_copy(size_t other) const;

 private:
  bool stands_out(size_t other, bool by_rows) const;

  std::span<const Compared> all_;
  size_t own_;
  std::vector<double> cosines_;  // by index into all_
};

}  // namespace thinwire::serve
