// Adds the product of two thin factors to a matrix, with a fixed order of sums: each element's runs
// over the rank in order, and every product is rounded before it is added. So replicas get the same
// bits on every instruction set and with any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/threads.h"

namespace thinwire::tensor {

// W += scale * (B A). Row-major: W is [out, in], B [out, rank], A [rank, in]; rank >= 1 and in >= 1
// follow from the sizes.
void add_factors(std::span<float> w, std::span<const float> a, std::span<const float> b,
                 int64_t rank, float scale, ThreadPool& threads);

}  // namespace thinwire::tensor
