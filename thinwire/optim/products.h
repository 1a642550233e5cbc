// fp32 matrix products with a fixed order of sums: the sum for every element runs over the inner
// dimension in order, and each product is rounded before it is added. So the bits are the same on
// every instruction set and with any number of threads, and replicas get identical results.
#pragma once

#include <cstdint>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// C = alpha L R + beta D. All are row-major: L is [rows, inner], R is [inner, columns], and C and D
// are [rows, columns]. D may be null, meaning none. C may be the same matrix as D, but otherwise
// overlaps none of the others.
struct Product {
  const float* left = nullptr;
  const float* right = nullptr;
  const float* added = nullptr;
  float* out = nullptr;
  int64_t inner = 0;
  int64_t columns = 0;
  float alpha = 1;
  float beta = 0;
  // L may be every left_step-th column of a larger matrix, and R every right_step-th row of one.
  int64_t left_step = 1;
  int64_t right_step = 1;
  int64_t left_columns = 0;  // of the matrix from which L is taken; 0: inner
  // R is given as its transpose, [columns, inner], whole.
  bool transposed = false;
  // C and D equal their transposes bit by bit, as X X^T does, and S S where S does: one triangle of
  // C is computed and copied to the other, which halves the work.
  bool symmetric = false;
};

void multiply(const Product& product, int64_t rows, ThreadPool& threads);

// Writes the transpose of `in` [rows, columns] to `out` [columns, rows]. They must not overlap.
void transpose(const float* in, int64_t rows, int64_t columns, float* out, ThreadPool& threads);

}  // namespace thinwire::optim
