// Orthonormal bases by Gram-Schmidt with a fixed order of sums, so that the bits are the same on
// every instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// Makes the rows of `rows` [count, length], count <= length, orthonormal, one after the other. Row
// i becomes its part orthogonal to the earlier rows, divided by the norm of that part, so it keeps
// its sign. (This is the Q of a QR decomposition of the transpose with a positive diagonal in R.)
// Rows are projected in blocks, by matrix products. A block of which a row loses a third of its
// norm or more is projected twice, which makes the rows orthogonal up to rounding (Giraud et al.
// 2005, "The loss of orthogonality in the Gram-Schmidt orthogonalization process"). A row whose
// orthogonal part is no larger than rounding is replaced by signs drawn from `seed`. The bits are
// the same for any number of threads.
void orthonormalise(std::span<float> rows, int64_t count, int64_t length, uint64_t seed,
                    ThreadPool& threads);

// Divides the values by their largest magnitude, which is returned; if that is 0, nothing changes.
float normalise(std::span<float> values);

// Fills `values` with 1 and -1, chosen by seed and position alone.
void draw_signs(std::span<float> values, uint64_t seed);

}  // namespace thinwire::optim
