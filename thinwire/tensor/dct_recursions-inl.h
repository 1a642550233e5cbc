// The recursions of dct.h (Plonka and Tasche 2005), as in dct_reference.cpp, on columns in vector
// lanes; compiled once for each instruction set (Highway's toggled include guard).
#if defined(THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#undef THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#else
#define THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#endif

#include <hwy/highway.h>

#include "thinwire/tensor/dct_tables.h"

#ifndef THINWIRE_BUTTERFLY
// Everything of a butterfly in one function, so that it works in registers; sanitized, such a
// function would take minutes to compile.
#if HWY_IS_ASAN || HWY_IS_TSAN
#define THINWIRE_BUTTERFLY HWY_NOINLINE
#define THINWIRE_UNROLL(factor)
#else
#define THINWIRE_BUTTERFLY HWY_INLINE
#define THINWIRE_UNROLL(factor) HWY_UNROLL(factor)
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

// In place, one column a lane.
template <int N>
THINWIRE_BUTTERFLY void dct2(V* HWY_RESTRICT x);

template <int N>
THINWIRE_BUTTERFLY void dct4(V* HWY_RESTRICT v) {
  const D d;
  if constexpr (N == 1) {
    v[0] = hn::Mul(v[0], hn::Set(d, dct4_cos(1, 0)));
    return;
  }
  constexpr int kHalf = N / 2;
  V a[kHalf > 0 ? kHalf : 1];
  V b[kHalf > 0 ? kHalf : 1];
  THINWIRE_UNROLL(32)
  for (int k = 0; k < kHalf; ++k) {
    const V c = hn::Set(d, kRotations<N>[size_t(k)][0]);
    const V s = hn::Set(d, kRotations<N>[size_t(k)][1]);
    a[k] = hn::Add(hn::Mul(v[k], c), hn::Mul(v[N - 1 - k], s));
    const V p = hn::Mul(v[k], s);
    const V q = hn::Mul(v[N - 1 - k], c);
    b[k] = k % 2 == 0 ? hn::Sub(p, q) : hn::Sub(q, p);
  }
  dct2<kHalf>(a);
  dct2<kHalf>(b);
  v[0] = a[0];
  THINWIRE_UNROLL(32)
  for (int m = 1; m < kHalf; ++m) {
    v[2 * m] = hn::Sub(a[m], b[kHalf - m]);
    v[2 * m - 1] = hn::Add(a[m], b[kHalf - m]);
  }
  v[N - 1] = b[0];
}

template <int N>
THINWIRE_BUTTERFLY void dct2(V* HWY_RESTRICT x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    V sums[kHalf];
    V differences[kHalf];
    THINWIRE_UNROLL(32)
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = hn::Add(x[k], x[N - 1 - k]);
      differences[k] = hn::Sub(x[k], x[N - 1 - k]);
    }
    dct2<kHalf>(sums);
    dct4<kHalf>(differences);
    THINWIRE_UNROLL(32)
    for (int j = 0; j < kHalf; ++j) {
      x[2 * j] = sums[j];
      x[2 * j + 1] = differences[j];
    }
  }
}

template <int N>
THINWIRE_BUTTERFLY void dct3(V* HWY_RESTRICT x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    V even[kHalf];
    V odd[kHalf];
    THINWIRE_UNROLL(32)
    for (int j = 0; j < kHalf; ++j) {
      even[j] = x[2 * j];
      odd[j] = x[2 * j + 1];
    }
    dct3<kHalf>(even);
    dct4<kHalf>(odd);
    THINWIRE_UNROLL(32)
    for (int k = 0; k < kHalf; ++k) {
      x[k] = hn::Add(even[k], odd[k]);
      x[N - 1 - k] = hn::Sub(even[k], odd[k]);
    }
  }
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
