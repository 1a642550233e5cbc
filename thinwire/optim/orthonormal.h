// Orthonormal bases by Gram-Schmidt with a fixed order of sums: the same bits on every instruction
// set.
#pragma once

#include <cstdint>
#include <span>

namespace thinwire::optim {

// Makes the rows of `rows` [count, length], count <= length, orthonormal, one after the other: row
// i becomes its part orthogonal to the rows before it, divided by its norm, so that it keeps its
// sign (the Q of a QR decomposition of the transpose whose R has a positive diagonal). Each is
// projected twice, which makes them orthogonal to rounding (Giraud et al. 2005, "The loss of
// orthogonality in the Gram-Schmidt orthogonalization process"). A row that has no such part above
// rounding is replaced by signs drawn from `seed`.
void orthonormalise(std::span<float> rows, int64_t count, int64_t length, uint64_t seed);

// Fills `values` with 1 and -1, a function of seed and position.
void draw_signs(std::span<float> values, uint64_t seed);

}  // namespace thinwire::optim
