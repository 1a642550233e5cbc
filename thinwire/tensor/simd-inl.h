// Helpers for vector loops over fp32 or bf16 memory, compiled once for each instruction set
// (Highway's toggled include guard). Arithmetic is fp32: bf16 is widened when loaded and rounded to
// nearest even when stored.
//
//     for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
//       lanes.store(hn::Mul(lanes.load(d, x + i), lanes.load(d, y + i)), d, z + i);
//     });
//
// visits [0, n) a vector at a time; `lanes` is Whole, or Part for the elements left over at the
// end, which load zeros behind the end and never touch memory there.
#if defined(THINWIRE_TENSOR_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_SIMD_INL_H_
#undef THINWIRE_TENSOR_SIMD_INL_H_
#else
#define THINWIRE_TENSOR_SIMD_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "thinwire/base/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_widened(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_widened(D d, const Bf16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE void store_rounded(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}

// The same function as to_bf16.
template <class D>
HWY_INLINE void store_rounded(hn::Vec<D> v, D, Bf16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<int32_t, D> di32;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(d32, 1));
  const auto even = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  const auto quiet = hn::Or(upper, hn::Set(d32, 0x40));
  const auto rounded = hn::IfThenElse(hn::RebindMask(d32, hn::Ne(v, v)), quiet, even);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, rounded)), d16, reinterpret_cast<uint16_t*>(to));
}

struct Whole {
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return load_widened(d, from);
  }
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_or(D d, const T* from, float) const {
    return load_widened(d, from);
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* to) const {
    store_rounded(v, d, to);
  }
};

struct Part {
  size_t count;

  // Behind the end: `fill`.
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_or(D d, const T* from, float fill) const {
    float values[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::MaxLanes(D()); ++i) values[i] = fill;
    for (size_t i = 0; i < count; ++i) values[i] = widened(from[i]);
    return hn::LoadU(d, values);
  }
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return load_or(d, from, 0.0f);
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* to) const {
    T values[hn::MaxLanes(D())];
    store_rounded(v, d, values);
    std::memcpy(to, values, count * sizeof(T));
  }

 private:
  static float widened(float value) { return value; }
  static float widened(Bf16 value) { return to_float(value); }
};

template <class D, class Body>
HWY_INLINE void for_vectors(D d, size_t n, const Body& body) {
  const size_t step = hn::Lanes(d);
  size_t i = 0;
  for (; i + step <= n; i += step) body(i, Whole{});
  if (i < n) body(i, Part{n - i});
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
