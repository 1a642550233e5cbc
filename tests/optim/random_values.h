// Values for tests of optimizers.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/base/rng.h"

namespace thinwire::optim {

// `count` normally distributed values.
inline std::vector<float> random_values(int64_t count, uint64_t seed, uint64_t stream = 0) {
  Rng rng(seed, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

}  // namespace thinwire::optim
