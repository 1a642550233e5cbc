// Products of a few rows with a matrix of weights, or of keys and values, as decoding text needs
// them: what matters is how fast the matrix comes from memory, so it is read once, from front to
// back, and nothing is packed or widened in memory. fp32 sums; the same inputs on the same kind of
// machine give the same bits with any number of helpers, other machines may sum in a different
// order.
#pragma once

#include <cstdint>

#include "thinwire/base/half.h"
#include "thinwire/base/threads.h"

namespace thinwire::tensor {

// Most rows of x for which this is faster than gemm().
inline constexpr int64_t kFewRows = 4;

// y = x W^T for m <= kFewRows rows of x [m, k] and y [m, n], `ldx` and `ldy` apart, and contiguous
// W [n, k] in fp32 or bf16, whose rows helpers share out.
void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const float* W, float* y, int64_t ldy);
void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const Bf16* W, float* y, int64_t ldy);
// The same, by this thread alone.
void multiply_few_rows(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx, const float* W,
                       float* y, int64_t ldy);

// y = x W, or y += x W with `add`, for m <= kFewRows rows of x [m, n] and y [m, k], `ldx` and `ldy`
// apart, and contiguous W [n, k]: sums of W's rows with the weights x.
void sum_weighted_rows(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx, const float* W,
                       bool add, float* y, int64_t ldy);

}  // namespace thinwire::tensor
