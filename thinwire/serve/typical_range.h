// How far from the others a value may lie before it is an outlier (Leys et al. 2013, "Detecting
// outliers: Do not use standard deviation around the mean, use absolute deviation around the
// median").
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/median.h"

namespace thinwire::serve {

struct TypicalRange {
  double middle = 0;  // the median
  double limit = 0;   // the farthest from it
};

// Of logarithms, at least one: limit = max(ln ratio, spreads * 1.4826 * MAD). 1.4826 is what makes
// the MAD of a normal distribution its standard deviation.
inline TypicalRange typical_range(std::vector<double> logs, double ratio, double spreads) {
  const double middle = median_of(logs);
  for (double& log : logs) log = std::abs(log - middle);
  return {middle, std::max(std::log(ratio), spreads * 1.4826 * median_of(std::move(logs)))};
}

}  // namespace thinwire::serve
