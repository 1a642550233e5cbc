// The median of some numbers.
#pragma once

#include <algorithm>
#include <cassert>
#include <vector>

namespace thinwire {

// Of an even number of values the mean of the middle two. At least one value.
inline double median_of(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace thinwire
