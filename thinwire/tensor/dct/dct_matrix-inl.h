// The transforms of dct.h for sides without a recursion: products with the two halves of B, for
// sums and for differences of mirrored elements, on columns in vector lanes; compiled once for each
// instruction set (Highway's toggled include guard).
#if defined(THINWIRE_TENSOR_DCT_MATRIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_DCT_MATRIX_INL_H_
#undef THINWIRE_TENSOR_DCT_MATRIX_INL_H_
#else
#define THINWIRE_TENSOR_DCT_MATRIX_INL_H_
#endif

#include "thinwire/tensor/dct/dct_recursions-inl.h"
#include "thinwire/tensor/dct/dct_tables.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

// out[i] = sum over j < terms of table(i * step_i, j * step_j) * in[j], from low j to high, for
// several i at once: each in[j] is loaded once for all of them, and no sum waits for its previous
// addition.
template <int Rows>
HWY_NOINLINE void products(const float* HWY_RESTRICT table, int64_t step_i, int64_t step_j,
                           const V* HWY_RESTRICT in, int terms, V* HWY_RESTRICT out) {
  const D d;
  V sums[Rows];
  HWY_UNROLL(8)
  for (int i = 0; i < Rows; ++i) sums[i] = hn::Mul(hn::Set(d, table[i * step_i]), in[0]);
  for (int j = 1; j < terms; ++j) {
    table += step_j;
    HWY_UNROLL(8)
    for (int i = 0; i < Rows; ++i) {
      sums[i] = hn::Add(sums[i], hn::Mul(hn::Set(d, table[i * step_i]), in[j]));
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < Rows; ++i) out[i] = sums[i];
}

// One call of fetch.more() for eight i.
HWY_INLINE void matrix_product(const float* table, int64_t step_i, int64_t step_j, const V* in,
                               int terms, V* out, int count, Fetcher& fetch) {
  for (; count >= 8; count -= 8, table += 8 * step_i, out += 8) {
    products<8>(table, step_i, step_j, in, terms, out);
    fetch.more();
  }
  fetch.more();
  switch (count) {
    case 7:
      return products<7>(table, step_i, step_j, in, terms, out);
    case 6:
      return products<6>(table, step_i, step_j, in, terms, out);
    case 5:
      return products<5>(table, step_i, step_j, in, terms, out);
    case 4:
      return products<4>(table, step_i, step_j, in, terms, out);
    case 3:
      return products<3>(table, step_i, step_j, in, terms, out);
    case 2:
      return products<2>(table, step_i, step_j, in, terms, out);
    case 1:
      return products<1>(table, step_i, step_j, in, terms, out);
    default:
      return;
  }
}

// Number of calls of fetch.more() in either of the functions below.
inline int matrix_calls(int n) { return (n + 1) / 2 / 8 + n / 2 / 8 + 2; }

// x[f] = the coefficients of kLanes columns, whose elements are `stride` apart.
HWY_INLINE void matrix_forward(const DctSide& side, const float* in, int64_t stride, Fetcher& fetch,
                               V* HWY_RESTRICT x) {
  const D d;
  const int n = side.n;
  const int evens = (n + 1) / 2;
  const int64_t step = padded(n);
  V sums[kMaxTileSide / 2 + 1];
  V differences[kMaxTileSide / 2 + 1];
  V out[kMaxTileSide / 2 + 1];
  for (int k = 0; k < n / 2; ++k) {
    const V v = hn::LoadU(d, in + k * stride);
    const V mirrored = hn::LoadU(d, in + (n - 1 - k) * stride);
    sums[k] = hn::Add(v, mirrored);
    differences[k] = hn::Sub(v, mirrored);
  }
  if (n % 2 != 0) sums[n / 2] = hn::LoadU(d, in + n / 2 * stride);
  matrix_product(side.row(0), 2 * step, 1, sums, evens, out, evens, fetch);
  for (int i = 0; i < evens; ++i) x[2 * i] = out[i];
  if (n < 2) return;
  matrix_product(side.row(1), 2 * step, 1, differences, n / 2, out, n / 2, fetch);
  for (int i = 0; i < n / 2; ++i) x[2 * i + 1] = out[i];
}

// out(k, element k of kLanes columns) from coefficients `stride` apart.
template <class Out>
HWY_INLINE void matrix_inverse(const DctSide& side, const float* coefficients, int64_t stride,
                               Fetcher& fetch, const Out& out) {
  const D d;
  const int n = side.n;
  const int evens = (n + 1) / 2;
  const int64_t step = padded(n);
  V in[kMaxTileSide / 2 + 1];
  V even[kMaxTileSide / 2 + 1];
  V odd[kMaxTileSide / 2 + 1];
  for (int i = 0; i < evens; ++i) in[i] = hn::LoadU(d, coefficients + 2 * i * stride);
  matrix_product(side.row(0), 1, 2 * step, in, evens, even, evens, fetch);
  if (n > 1) {
    for (int i = 0; i < n / 2; ++i) in[i] = hn::LoadU(d, coefficients + (2 * i + 1) * stride);
    matrix_product(side.row(1), 1, 2 * step, in, n / 2, odd, n / 2, fetch);
  }
  for (int k = 0; k < n / 2; ++k) {
    out(k, hn::Add(even[k], odd[k]));
    out(n - 1 - k, hn::Sub(even[k], odd[k]));
  }
  if (n % 2 != 0) out(n / 2, even[n / 2]);
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
