// Products of a few rows with a matrix of weights, as decoding text needs them: what matters is how
// fast the weights come from memory, so every one is read once, from front to back, and none is
// packed or widened in memory.
#pragma once

#include <cstdint>

#include "thinwire/base/bf16.h"
#include "thinwire/base/helper_threads.h"

namespace thinwire::tensor {

// Most rows of x for which this is faster than gemm().
inline constexpr int64_t kFewRows = 4;

// y = x W^T with fp32 sums, for m <= kFewRows rows of x [m, k] and y [m, n], `ldx` and `ldy` apart,
// and contiguous weights W [n, k] in fp32 or bf16, which helpers share out. The same inputs on
// the same kind of machine give the same bits with any number of helpers; other machines may sum in
// a different order.
void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const float* W, float* y, int64_t ldy);
void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const Bf16* W, float* y, int64_t ldy);

}  // namespace thinwire::tensor
