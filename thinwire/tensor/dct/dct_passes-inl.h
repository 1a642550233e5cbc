// Building blocks of the passes of dct.cpp over a tile: the transforms of kLanes columns of any
// length, loops over columns that do not fill the last vector, and stores that transpose a square
// of elements. Compiled once for each instruction set (Highway's toggled include guard).
#if defined(THINWIRE_TENSOR_DCT_PASSES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_DCT_PASSES_INL_H_
#undef THINWIRE_TENSOR_DCT_PASSES_INL_H_
#else
#define THINWIRE_TENSOR_DCT_PASSES_INL_H_
#endif

#include "thinwire/tensor/dct/dct_recursions-inl.h"
#include "thinwire/tensor/dct/dct_tables.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

// For sides without a recursion: products with the two halves of B, for sums and for differences of
// mirrored elements.

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

// Number of calls of fetch.more() for kLanes columns of a side.
inline int64_t calls_of(int n) {
  if (in_quarters(n)) return quarters_calls(n);
  return is_fast_dct_size(n) ? 1 : matrix_calls(n);
}

// How many coefficients of a side forward() passes to `out` at a time.
constexpr int group_of(int n) { return n > 0 && n < 16 ? n : 16; }

// The coefficients of kLanes columns: out(f, the group of coefficients from f on). N is the side if
// there is a recursion for it, else 0; then zeros fill up the last group.
template <int N, class Out>
THINWIRE_BUTTERFLY void forward(const DctSide& side, const float* in, int64_t stride,
                                Fetcher& fetch, const Out& out) {
  const D d;
  if constexpr (in_quarters(N)) {
    quarters_forward<N>(side.norm.data(), in, stride, fetch, out);
  } else if constexpr (N > 0) {
    V x[N];
    THINWIRE_UNROLL(16)
    for (int i = 0; i < N; ++i) x[i] = hn::LoadU(d, in + i * stride);
    dct2<N>(x);
    THINWIRE_UNROLL(16)
    for (int f = 0; f < N; ++f) x[f] = hn::Mul(x[f], hn::Set(d, side.norm[size_t(f)]));
    out(0, x);
    fetch.more();
  } else {
    V x[kMaxTileSide + 15];
    matrix_forward(side, in, stride, fetch, x);
    for (int f = side.n; f < side.n + 15; ++f) x[f] = hn::Zero(d);
    for (int f = 0; f < side.n; f += 16) out(f, x + f);
  }
}

// The elements of kLanes columns: out(i, element i).
template <int N, class Out>
THINWIRE_BUTTERFLY void inverse(const DctSide& side, const float* in, int64_t stride,
                                Fetcher& fetch, const Out& out) {
  const D d;
  if constexpr (in_quarters(N)) {
    quarters_inverse<N>(side.norm.data(), in, stride, fetch, out);
  } else if constexpr (N > 0) {
    V x[N];
    THINWIRE_UNROLL(16)
    for (int f = 0; f < N; ++f) {
      x[f] = hn::Mul(hn::LoadU(d, in + f * stride), hn::Set(d, side.norm[size_t(f)]));
    }
    dct3<N>(x);
    THINWIRE_UNROLL(16)
    for (int i = 0; i < N; ++i) out(i, x[i]);
    fetch.more();
  } else {
    matrix_inverse(side, in, stride, fetch, out);
  }
}

// Calls body with the side as a constant, or with 0 if there is no recursion for it.
template <class Body>
void for_side(int n, const Body& body) {
  switch (n) {
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    case 32:
      return body(std::integral_constant<int, 32>());
    case 64:
      return body(std::integral_constant<int, 64>());
    default:
      return body(std::integral_constant<int, 0>());
  }
}

// Loads and stores only the first lanes of a vector, and touches no other memory.
class FirstLanes {
 public:
  explicit FirstLanes(int64_t count) : count_(static_cast<size_t>(count)) {}

  HWY_INLINE V load(const float* from) const {
#if HWY_TARGET <= HWY_AVX3
    return hn::MaskedLoad(hn::FirstN(D(), count_), D(), from);
#else
    HWY_ALIGN float values[size_t(kLanes)] = {};
    for (size_t i = 0; i < count_; ++i) values[i] = from[i];
    return hn::Load(D(), values);
#endif
  }
  HWY_INLINE void store(V v, float* to) const {
#if HWY_TARGET <= HWY_AVX3
    hn::BlendedStore(v, hn::FirstN(D(), count_), D(), to);
#else
    HWY_ALIGN float values[size_t(kLanes)];
    hn::Store(v, D(), values);
    for (size_t i = 0; i < count_; ++i) to[i] = values[i];
#endif
  }

 private:
  size_t count_;
};

class AllLanes {
 public:
  HWY_INLINE V load(const float* from) const { return hn::LoadU(D(), from); }
  HWY_INLINE void store(V v, float* to) const { hn::StoreU(v, D(), to); }
};

// Calls body(first column, lanes) for all of `count` columns, kLanes at a time.
template <class Body>
HWY_INLINE void for_columns(int64_t count, const Body& body) {
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) body(at, AllLanes());
  if (at < count) body(at, FirstLanes(count - at));
}

#if HWY_TARGET != HWY_SCALAR
// Stores 128 bits at a time, `stride` apart.
template <class DV>
HWY_INLINE void store_blocks(DV d, hn::Vec<DV> v, float* out, int64_t stride) {
  if constexpr (hn::MaxLanes(DV()) <= 4) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<DV> half;
    constexpr int64_t kBlocks = hn::MaxLanes(half) / 4;
    store_blocks(half, hn::LowerHalf(half, v), out, stride);
    store_blocks(half, hn::UpperHalf(half, v), out + kBlocks * stride, stride);
  }
}
#endif

// Transposes 4 x 4 squares within 128 bits: lane 4k + j of x[i] becomes lane 4k + i of x[j].
HWY_INLINE void transpose_blocks(V* HWY_RESTRICT x) {
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Repartition<double, D> d64;
  const auto low = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto high = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const V low01 = hn::InterleaveLower(d, x[0], x[1]);
  const V low23 = hn::InterleaveLower(d, x[2], x[3]);
  const V high01 = hn::InterleaveUpper(d, x[0], x[1]);
  const V high23 = hn::InterleaveUpper(d, x[2], x[3]);
  x[0] = low(low01, low23);
  x[1] = high(low01, low23);
  x[2] = low(high01, high23);
  x[3] = high(high01, high23);
#else
  (void)x;
#endif
}

// out[lane * stride + i] = x[i]; Count is 4, 8 or 16. Overwrites x.
template <int Count>
THINWIRE_BUTTERFLY void store_turned(V* HWY_RESTRICT x, float* HWY_RESTRICT out, int64_t stride) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  (void)stride;
  for (int i = 0; i < Count; ++i) hn::StoreU(x[i], d, out + i);
#else
  THINWIRE_UNROLL(4)
  for (int i = 0; i < Count; i += 4) transpose_blocks(x + i);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (Count == 16) {  // whole lines: fewer stores
    THINWIRE_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const auto r0 = x[j].raw, r1 = x[4 + j].raw, r2 = x[8 + j].raw, r3 = x[12 + j].raw;
      const auto low01 = _mm512_shuffle_f32x4(r0, r1, 0x44);
      const auto low23 = _mm512_shuffle_f32x4(r2, r3, 0x44);
      const auto high01 = _mm512_shuffle_f32x4(r0, r1, 0xee);
      const auto high23 = _mm512_shuffle_f32x4(r2, r3, 0xee);
      float* const to = out + j * stride;
      _mm512_storeu_ps(to, _mm512_shuffle_f32x4(low01, low23, 0x88));
      _mm512_storeu_ps(to + 4 * stride, _mm512_shuffle_f32x4(low01, low23, 0xdd));
      _mm512_storeu_ps(to + 8 * stride, _mm512_shuffle_f32x4(high01, high23, 0x88));
      _mm512_storeu_ps(to + 12 * stride, _mm512_shuffle_f32x4(high01, high23, 0xdd));
    }
    return;
  }
#endif
  THINWIRE_UNROLL(4)
  for (int i = 0; i < Count; i += 4) {
    THINWIRE_UNROLL(4)
    for (int j = 0; j < 4; ++j) store_blocks(d, x[i + j], out + j * stride + i, 4 * stride);
  }
#endif
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
