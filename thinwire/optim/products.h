// fp32 matrix products with a fixed order of sums: every element's sum runs over the inner
// dimension in order, each product rounded before it is added. So the bits are the same on every
// instruction set and for any number of threads, and replicas may agree on the result.
#pragma once

#include <cstdint>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// C = alpha L R + beta D. All row-major: L is [rows, inner], R is [inner, columns], C and D (null:
// none) are [rows, columns]. C overlaps none of the others, but may be D.
struct Product {
  const float* left;
  const float* right;
  const float* added;
  float* out;
  int64_t inner;
  int64_t columns;
  float alpha = 1;
  float beta = 0;
};

void multiply(const Product& product, int64_t rows, ThreadPool& threads);
// The same bits by three plain loops, on the calling thread: what multiply is tested against.
void multiply_plain(const Product& product, int64_t rows);

// `out` [columns, rows] becomes the transpose of `in` [rows, columns]; they do not overlap.
void transpose(const float* in, int64_t rows, int64_t columns, float* out, ThreadPool& threads);

}  // namespace thinwire::optim
