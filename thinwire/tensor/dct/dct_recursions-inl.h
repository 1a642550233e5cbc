// The recursions of dct.h (Plonka and Tasche 2005), as in tests/tensor/dct_reference.h, on columns
// in vector lanes; compiled once for each instruction set (Highway's toggled include guard).
//
// Recursions of up to 16 elements run in registers. For 32 and 64 the upper two levels are loops
// over memory around four recursions of a quarter of the size, which stay small enough for the
// CPU's cache of decoded instructions; as a single piece of code they would be limited by decoding.
#if defined(THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#undef THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#else
#define THINWIRE_TENSOR_DCT_RECURSIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "thinwire/tensor/dct/dct_tables.h"

#ifndef THINWIRE_BUTTERFLY
// Inlines a whole butterfly, and what it loads and stores, into one function, so that it works in
// registers; with sanitizers such functions would take many minutes to compile.
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

// Prefetches memory into the cache, a few lines at each of the `calls` of more(), so that it
// arrives while the caller computes: a core stalls when about a dozen lines are outstanding.
class Fetcher {
 public:
  Fetcher(const float* from, int64_t count, int64_t calls)
      : at_(from),
        end_(from == nullptr ? from : from + count),
        lines_((count / kLine + calls - 1) / calls) {}

  HWY_INLINE void more() {
    for (int64_t i = 0; i < lines_ && at_ < end_; ++i, at_ += kLine) __builtin_prefetch(at_, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 16;
  const float* at_;
  const float* end_;
  int64_t lines_;
};

// In place, one column per lane.
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

// One of the above in memory.
template <int N, void (*kTransform)(V*)>
HWY_NOINLINE void in_memory(V* HWY_RESTRICT at) {
  V x[N];
  THINWIRE_UNROLL(16)
  for (int i = 0; i < N; ++i) x[i] = at[i];
  kTransform(x);
  THINWIRE_UNROLL(16)
  for (int i = 0; i < N; ++i) at[i] = x[i];
}

// The rotation of elements k and N - 1 - k that begins a dct4<N>; k is even or odd.
template <int N, bool Odd>
HWY_INLINE void rotate(int k, V first, V last, V& a, V& b) {
  const D d;
  const V c = hn::Set(d, kRotations<N>[size_t(k)][0]);
  const V s = hn::Set(d, kRotations<N>[size_t(k)][1]);
  a = hn::Add(hn::Mul(first, c), hn::Mul(last, s));
  const V p = hn::Mul(first, s);
  const V q = hn::Mul(last, c);
  b = Odd ? hn::Sub(q, p) : hn::Sub(p, q);
}

// How dct4<2 Q> combines its two halves a and b: its element 2m is a[m] - b[Q - m], 2m - 1 is a[m]
// + b[Q - m]. Zeros that change nothing, not even a sign, replace a[Q] and b[Q].
template <int Q>
struct Rotated {
  V a[Q + 1];
  V b[Q + 1];

  HWY_INLINE Rotated() {
    const D d;
    a[Q] = hn::Set(d, -0.0f);
    b[Q] = hn::Zero(d);
  }
  HWY_INLINE V even(int m) const { return hn::Sub(a[m], b[Q - m]); }         // element 2m
  HWY_INLINE V odd(int m) const { return hn::Add(a[m + 1], b[Q - 1 - m]); }  // element 2m + 1
};

constexpr bool in_quarters(int n) { return n == 32 || n == 64; }

// Number of calls of fetch.more() in quarters_forward and quarters_inverse.
constexpr int quarters_calls(int n) { return n / 8 + 4 + n / 4; }

// The normalised coefficients of kLanes columns, whose elements are `stride` apart, 16 at a time:
// out(f, coefficients f ... f + 15).
template <int N, class Out>
THINWIRE_BUTTERFLY void quarters_forward(const float* norm, const float* in, int64_t stride,
                                         Fetcher& fetch, const Out& out) {
  constexpr int kQ = N / 4;
  const D d;
  V even[kQ], odd[kQ];  // coefficients 4i and 4i + 2
  Rotated<kQ> rest;
  const auto load = [&](int i) HWY_ATTR { return hn::LoadU(d, in + i * stride); };
  const auto four = [&](int k, auto odd_k) HWY_ATTR {
    const V x0 = load(k), x1 = load(2 * kQ - 1 - k), x2 = load(2 * kQ + k), x3 = load(N - 1 - k);
    const V sum = hn::Add(x0, x3), mirrored = hn::Add(x1, x2);
    even[k] = hn::Add(sum, mirrored);
    odd[k] = hn::Sub(sum, mirrored);
    rotate<N / 2, odd_k()>(k, hn::Sub(x0, x3), hn::Sub(x1, x2), rest.a[k], rest.b[k]);
  };
  for (int k = 0; k < kQ; k += 2) {
    four(k, std::false_type());
    four(k + 1, std::true_type());
    fetch.more();
  }
  in_memory<kQ, dct2<kQ>>(even);
  fetch.more();
  in_memory<kQ, dct4<kQ>>(odd);
  fetch.more();
  in_memory<kQ, dct2<kQ>>(rest.a);
  fetch.more();
  in_memory<kQ, dct2<kQ>>(rest.b);
  fetch.more();
  for (int i = 0; i < kQ; i += 4) {
    V x[16];
    THINWIRE_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const float* a = norm + 4 * (i + j);
      x[4 * j] = hn::Mul(even[i + j], hn::Set(d, a[0]));
      x[4 * j + 1] = hn::Mul(rest.even(i + j), hn::Set(d, a[1]));
      x[4 * j + 2] = hn::Mul(odd[i + j], hn::Set(d, a[2]));
      x[4 * j + 3] = hn::Mul(rest.odd(i + j), hn::Set(d, a[3]));
      fetch.more();
    }
    out(4 * i, x);
  }
}

// out(i, element i of kLanes columns) from coefficients `stride` apart.
template <int N, class Out>
THINWIRE_BUTTERFLY void quarters_inverse(const float* norm, const float* in, int64_t stride,
                                         Fetcher& fetch, const Out& out) {
  constexpr int kQ = N / 4;
  const D d;
  V even[kQ], odd[kQ];
  Rotated<kQ> rest;
  const auto load = [&](int f) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, in + f * stride), hn::Set(d, norm[f]));
  };
  const auto turn = [&](int k, auto odd_k) HWY_ATTR {
    even[k] = load(4 * k);
    odd[k] = load(4 * k + 2);
    rotate<N / 2, odd_k()>(k, load(2 * k + 1), load(N - 1 - 2 * k), rest.a[k], rest.b[k]);
  };
  for (int k = 0; k < kQ; k += 2) {
    turn(k, std::false_type());
    turn(k + 1, std::true_type());
    fetch.more();
  }
  in_memory<kQ, dct3<kQ>>(even);
  fetch.more();
  in_memory<kQ, dct4<kQ>>(odd);
  fetch.more();
  in_memory<kQ, dct2<kQ>>(rest.a);
  fetch.more();
  in_memory<kQ, dct2<kQ>>(rest.b);
  fetch.more();
  // Elements k, N/2 - 1 - k, N/2 + k and N - 1 - k, given elements k and N/2 - 1 - k of a dct4.
  const auto four = [&](int k, V first, V last) HWY_ATTR {
    const V sum = hn::Add(even[k], odd[k]);
    const V difference = hn::Sub(even[k], odd[k]);
    out(k, hn::Add(sum, first));
    out(N / 2 - 1 - k, hn::Add(difference, last));
    out(N / 2 + k, hn::Sub(difference, last));
    out(N - 1 - k, hn::Sub(sum, first));
  };
  for (int m = 0; m < kQ / 2; ++m) {
    four(2 * m, rest.even(m), rest.odd(kQ - 1 - m));
    fetch.more();
    four(2 * m + 1, rest.odd(m), rest.even(kQ - 1 - m));
    fetch.more();
  }
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
