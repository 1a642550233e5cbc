// Weights that are kept in few bits and never changed: how a tensor is encoded.
//
// kInt8: linear codes in 8 bits, rounded to nearest. The values of a tensor, in row-major order,
// are cut into blocks of kInt8Block; what is missing in the last one counts as 0. For each block
//   c       its largest magnitude
//   s       c / 127
//   code    x / s, rounded to the nearest integer, ties to even; 0 if s is 0 or not finite
// and a value is decoded to code * s; each operation is rounded to fp32. If c is not finite, s is
// NaN, and with it the decoded block. |decoded - x| <= c / 253, and at most 3e-45 more where s is
// not a normal number. A value takes 8 + 32/64 = 8.5 bits. Memory of a tensor (int8_bytes): the
// codes, a byte each; s of each block in fp32, little-endian; zeros up to a multiple of 64 bytes.
//
// kNf4: NF4, the weights in 4 bits of QLoRA (Dettmers et al. 2023, arXiv 2305.14314, section 3 and
// appendix E), with double quantization; the code books are those of its implementation,
// bitsandbytes.
//
// The values of a tensor, in row-major order, are cut into blocks of kNf4Block; what is missing in
// the last one counts as 0. For each block
//   c       its largest magnitude
//   code    of a value x: the number of middles between neighbours of nf4_values() that are less
//           than x / c, which is the index of the one nearest to x / c; of all values 7, which
//           stands for 0, if c is 0
// and double quantization replaces c by c':
//   m       the mean of the c of all blocks of the tensor, summed in order in double precision
//   a       of each kNf4ScaleBlock blocks: the largest |c - m|
//   scale's code   the number of middles between neighbours of nf4_scale_values() that are less
//           than (c - m) / a; that of 0 if a is 0
//   c'      m + a * nf4_scale_values()[scale's code]
// A value is decoded to nf4_values()[code] * c', in fp32, and rounded to nearest where it is kept
// in bf16. Each operation is rounded to fp32, so encoder and decoder give the same bits on every
// machine. If any value is not finite, m is NaN, and with it all that is decoded.
//
// A value takes 4 bits for its code, 8/64 for its scale's code, and 32/(64 * 256) for a: 4.127. The
// tensor takes 32 bits for m.
//
// |decoded - x| <= (0.152 + 0.00704 r) c, where r is the a of the block's scales divided by c: half
// of the widest gap between codes, and of that between scales' codes.
//
// Memory of a tensor (nf4_bytes), aligned to 4 bytes, little-endian:
//   codes           32 bytes a block, the first of two values in the upper half of a byte
//   a               fp32 for each block of scales
//   m               fp32
//   scales' codes   a byte for each block
//   zeros           up to a multiple of 64 bytes
//
// All functions compute on the calling thread with the CPU's best instructions, and may be called
// from any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/half.h"
#include "thinwire/base/number_format.h"

namespace thinwire::tensor {

// In ascending order: the 16 values of appendix E, which divide a normal distribution into equal
// parts, among them 0 and both ends; and 256 numbers of 8 bits with a sign, a decimal exponent of
// varying length and a linear fraction (Dettmers et al. 2021, arXiv 2110.02861, section 2.1),
// (0.1 + 0.9 (2 j + 1) / 2^(i + 1)) * 10^(i - 6) and its negative for i = 0..6, j = 0..2^i - 1, and
// 0 and 1.
std::span<const float, 16> nf4_values();
std::span<const float, 256> nf4_scale_values();

// `to` has room for nf4_bytes(values.size()), or int8_bytes() of it.
void encode_nf4(std::span<const float> values, uint8_t* to);
void encode_int8(std::span<const float> values, uint8_t* to);
inline void encode(WeightFormat format, std::span<const float> values, uint8_t* to) {
  format == WeightFormat::kInt8 ? encode_int8(values, to) : encode_nf4(values, to);
}

// An encoded matrix, row-major.
struct EncodedMatrix {
  const uint8_t* encoded = nullptr;  // null: there is none
  int64_t rows = 0, columns = 0;
  WeightFormat format = WeightFormat::kNf4;
};

// Columns [column, column + columns) of rows [row, row + rows), densely. T is float or Bf16.
template <typename T>
void decode_nf4(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, T* to);
template <typename T>
void decode_int8(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, T* to);
// The same by its format.
template <typename T>
void decode(const EncodedMatrix& from, int64_t row, int64_t rows, int64_t column, int64_t columns,
            T* to) {
  from.format == WeightFormat::kInt8 ? decode_int8(from, row, rows, column, columns, to)
                                     : decode_nf4(from, row, rows, column, columns, to);
}

}  // namespace thinwire::tensor
