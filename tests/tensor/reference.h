// The kernels written as plainly as possible, in double precision; the fast ones are tested against
// them. Shapes, names and conventions are those of kernels.h, attention.h and cross_entropy.h;
// matrices are row-major and dense.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/kernels/encoded.h"
#include "thinwire/tensor/kernels/number_formats.h"
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

// The definitions behind number_formats.h, one value at a time; the vector code is tested against
// them, bit for bit.

// The random bits for the value of this index.
uint32_t random_bits(uint64_t key, int64_t index);

Bf16 round_stochastically(float value, uint32_t random);

// The exponent of a block; kMaxBlockExponent + 1 if a value cannot be encoded.
uint32_t block_exponent(BlockCode code, std::span<const float> values);
// `exponent` is that of the value's block, not 0.
uint8_t encode(BlockCode code, float value, uint32_t exponent, uint32_t random);
float decode(BlockCode code, uint8_t bits, uint32_t exponent);

// The definition of NF4 (encoded.h), with the parts of its memory.
std::vector<uint8_t> encode_nf4(std::span<const float> values);
std::vector<float> decode_nf4(std::span<const uint8_t> encoded, int64_t count);

}  // namespace thinwire::tensor::reference
