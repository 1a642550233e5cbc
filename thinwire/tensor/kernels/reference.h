// The kernels written as plainly as possible, in double precision; the fast ones are tested against
// them. Shapes, names and conventions are those of kernels.h, attention.h and cross_entropy.h;
// matrices are row-major and dense.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor::reference {

using Matrix = std::vector<double>;

Matrix gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Matrix& A,
            const Matrix& B);

Matrix rmsnorm(int64_t width, const Matrix& x, const Matrix& weight, double eps);
Matrix layer_norm(int64_t width, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  double eps);
Matrix gelu(const Matrix& x);
Matrix swiglu(int64_t width, const Matrix& gate_up);

// One row of the batch: qkv [T, W] -> out [T, H D].
Matrix attention(const AttentionShape& shape, double theta, int64_t sequence, const Matrix& qkv);

// Sum of the cross entropies of softmax(x weight^T) with the targets, each multiplied by its row's
// factor (empty: 1).
double linear_cross_entropy(int64_t width, int64_t vocabulary, const Matrix& x,
                            const Matrix& weight, std::span<const int32_t> targets,
                            std::span<const float> factors = {});

}  // namespace thinwire::tensor::reference
