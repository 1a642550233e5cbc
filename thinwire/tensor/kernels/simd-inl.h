// Helpers for vector loops over fp32 or bf16 memory, compiled once for each instruction set
// (Highway's toggled include guard). Arithmetic is fp32: bf16 is widened when loaded and rounded to
// nearest even when stored.
//
//     for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
//       lanes.store(hn::Mul(lanes.load(d, x + i), lanes.load(d, y + i)), d, z + i);
//     });
//
// visits [0, n) one vector at a time; `lanes` is Whole, or Part for the remaining elements at the
// end. Part loads zeros past the end and never touches memory there.
#if defined(THINWIRE_TENSOR_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_SIMD_INL_H_
#undef THINWIRE_TENSOR_SIMD_INL_H_
#else
#define THINWIRE_TENSOR_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "thinwire/base/half.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements as stored in memory: Tag has as many of them as D has lanes.
template <typename T>
struct Stored {
  static_assert(std::is_same_v<T, float>);
  template <class D>
  using Tag = D;

  static HWY_INLINE const float* at(const float* p) { return p; }
  static HWY_INLINE float* at(float* p) { return p; }
  template <class D>
  static HWY_INLINE hn::Vec<D> widen(D, hn::Vec<D> v) {
    return v;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> narrow(D, hn::Vec<D> v) {
    return v;
  }
};

template <>
struct Stored<Bf16> {
  template <class D>
  using Tag = hn::Rebind<uint16_t, D>;

  static HWY_INLINE const uint16_t* at(const Bf16* p) {
    return reinterpret_cast<const uint16_t*>(p);
  }
  static HWY_INLINE uint16_t* at(Bf16* p) { return reinterpret_cast<uint16_t*>(p); }
  template <class D>
  static HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<Tag<D>> bits) {
    const hn::Rebind<uint32_t, D> d32;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
  }
  // to_bf16() of each, in the lower halves.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> rounded_bits(D, hn::Vec<D> v) {
    const hn::Rebind<uint32_t, D> d32;
    const auto bits = hn::BitCast(d32, v);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(d32, 1));
    const auto even = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
    const auto quiet = hn::Or(upper, hn::Set(d32, 0x40));
    // Highway's Ne is false for NaN on some instruction sets.
    const auto is_nan = hn::Not(hn::RebindMask(d32, hn::Eq(v, v)));
    return hn::IfThenElse(is_nan, quiet, even);
  }
  template <class D>
  static HWY_INLINE hn::Vec<Tag<D>> narrow(D d, hn::Vec<D> v) {
    const hn::Rebind<int32_t, D> di32;
    return hn::DemoteTo(Tag<D>(), hn::BitCast(di32, rounded_bits(d, v)));
  }
};

struct Whole {
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    const typename Stored<T>::template Tag<D> tag;
    return Stored<T>::widen(d, hn::LoadU(tag, Stored<T>::at(from)));
  }
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_or(D d, const T* from, float) const {
    return load(d, from);
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* to) const {
    const typename Stored<T>::template Tag<D> tag;
    hn::StoreU(Stored<T>::narrow(d, v), tag, Stored<T>::at(to));
  }
};

struct Part {
  size_t count;

  // Lanes past the end become `fill`.
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_or(D d, const T* from, float fill) const {
    return hn::IfThenElse(hn::FirstN(d, count), load(d, from), hn::Set(d, fill));
  }
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    const typename Stored<T>::template Tag<D> tag;
    if constexpr (kMasked<T>) {
      const auto mask = hn::FirstN(tag, count);
      return Stored<T>::widen(d, hn::MaskedLoad(mask, tag, Stored<T>::at(from)));
    } else {
      T values[hn::MaxLanes(D())] = {};
      std::memcpy(values, from, count * sizeof(T));
      return Whole().load(d, values);
    }
  }
  template <class D, typename T>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* to) const {
    const typename Stored<T>::template Tag<D> tag;
    if constexpr (kMasked<T>) {
      hn::BlendedStore(Stored<T>::narrow(d, v), hn::FirstN(tag, count), tag, Stored<T>::at(to));
    } else {
      T values[hn::MaxLanes(D())];
      Whole().store(v, d, values);
      std::memcpy(to, values, count * sizeof(T));
    }
  }

 private:
  // Whether the instruction set has masked loads and stores, which do not touch memory past the
  // end.
  template <typename T>
  static constexpr bool kMasked =
      !HWY_MEM_OPS_MIGHT_FAULT || (HWY_TARGET == HWY_AVX2 && sizeof(T) == sizeof(float));
};

// e^x for x <= 88, with a relative error below 1e-7; 0 below the logarithm of the least normal
// number. 15 instructions: unlike a library's it has no subnormal results and no overflow check.
//
// x = n ln 2 + r, |r| <= ln 2 / 2. The polynomial 1 + r + r^2 (c0 + ... + c4 r^4) minimises the
// largest error relative to e^r.
template <class D>
HWY_INLINE hn::Vec<D> exp_normal(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding this to a small number leaves the number, rounded to an integer, plus the exponent's
  // bias of 127 in the last bits.
  const auto rounder = hn::Set(d, 0x1.8p23f + 127);
  const auto rounded = hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), rounder);  // log2 e
  const auto n = hn::Sub(rounded, rounder);
  // ln 2 in two parts; the first has so few bits that its product with n is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.63p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.bd0106p-13f), r);
  auto p = hn::MulAdd(hn::Set(d, 1.3814539e-3f), r, hn::Set(d, 8.3687454e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1668389e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666521f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
  const auto below = hn::Lt(x, hn::Set(d, -87.336f));
  return hn::IfThenZeroElse(below, hn::Mul(p, power));
}

// The bits of the largest magnitude of `count` values, whole vectors; infinity and NaN are larger
// than all others.
HWY_INLINE uint32_t largest_magnitude(const float* values, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, hn::LoadU(d, values + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(di, 0x7fffffff)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

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
