// The softmax of attention's scores (kernels.h), and what it shares with the cross entropy.
// Compiled once for each instruction set (Highway's toggled include guard).
#if defined(THINWIRE_TENSOR_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_SOFTMAX_INL_H_
#undef THINWIRE_TENSOR_SOFTMAX_INL_H_
#else
#define THINWIRE_TENSOR_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE float row_max(const float* row, size_t n) {
  const D d;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V largest = hn::Set(d, kLowest);
  for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
    largest = hn::Max(largest, lanes.load_or(d, row + i, kLowest));
  });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// out = exp(row - shift); returns the sum. out may be the row.
template <typename T>
HWY_INLINE float exp_row(const float* row, size_t n, float shift, T* out) {
  const D d;
  const V vshift = hn::Set(d, shift);
  V sum = hn::Zero(d);
  for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    const V e = exp_normal(d, hn::Sub(lanes.load_or(d, row + i, kLowest), vshift));
    sum = hn::Add(sum, e);
    lanes.store(e, d, out + i);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The columns [begin, end) that row r of a tile sees.
struct Seen {
  Seen(int64_t columns, int64_t visible, int64_t reach, int64_t r)
      : begin(std::clamp(std::max(visible + r, int64_t{0}) - reach, int64_t{0}, columns)),
        end(std::clamp(visible + r, begin, columns)) {}
  size_t count() const { return static_cast<size_t>(end - begin); }
  template <typename T>
  void clear_others(T* row, int64_t columns) const {
    std::fill(row, row + begin, T());
    std::fill(row + end, row + columns, T());
  }
  int64_t begin, end;
};

template <typename T>
void causal_softmax_tile(int64_t rows, int64_t columns, int64_t visible, int64_t reach,
                         const float* scores, int64_t stride, T* p, float* max, float* sum,
                         float* rescale) {
  for (int64_t r = 0; r < rows; ++r, scores += stride, p += stride) {
    const Seen seen(columns, visible, reach, r);
    const float* const first = scores + seen.begin;
    const float largest = std::max(max[r], row_max(first, seen.count()));
    rescale[r] = std::exp(max[r] - largest);
    sum[r] = sum[r] * rescale[r] + exp_row(first, seen.count(), largest, p + seen.begin);
    max[r] = largest;
    seen.clear_others(p, columns);
    if (std::is_same_v<T, Bf16> && columns % 2 != 0) p[columns] = T();
  }
}

inline void causal_softmax_backward(int64_t rows, int64_t columns, int64_t visible, int64_t reach,
                                    const float* log_sum_exp, const float* correction,
                                    float* scores, float* dprobability, int64_t stride) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, scores += stride, dprobability += stride) {
    const Seen seen(columns, visible, reach, r);
    float* const score = scores + seen.begin;
    float* const gradient = dprobability + seen.begin;
    const V shift = hn::Set(d, log_sum_exp[r]);
    const V mean = hn::Set(d, correction[r]);
    for_vectors(d, seen.count(), [&](size_t i, auto lanes) HWY_ATTR {
      const V p = exp_normal(d, hn::Sub(lanes.load(d, score + i), shift));
      lanes.store(p, d, score + i);
      const V dp = lanes.load(d, gradient + i);
      lanes.store(hn::Mul(p, hn::Sub(dp, mean)), d, gradient + i);
    });
    seen.clear_others(scores, columns);
    seen.clear_others(dprobability, columns);
  }
}

// The columns [begin, end) of one row of scores, their gradients, and what they are relative to.
struct SoftmaxRow {
  int64_t begin, end;
  float log_sum_exp, correction;
  const float* scores;
  const float* dprobability;
};

struct SoftmaxGradient {
  V p, ds;
};

// Columns [i, i + lanes) of a row, 0 where it sees nothing.
HWY_INLINE SoftmaxGradient softmax_gradient(const SoftmaxRow& row, int64_t i) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto column = hn::Iota(di, static_cast<int32_t>(i));
  const auto seen = hn::And(hn::Gt(column, hn::Set(di, static_cast<int32_t>(row.begin - 1))),
                            hn::Lt(column, hn::Set(di, static_cast<int32_t>(row.end))));
  const auto mask = hn::RebindMask(d, seen);
  const V shifted = hn::Sub(hn::LoadU(d, row.scores + i), hn::Set(d, row.log_sum_exp));
  const V p = hn::IfThenElseZero(mask, exp_normal(d, shifted));
  const V dp = hn::Sub(hn::LoadU(d, row.dprobability + i), hn::Set(d, row.correction));
  return {p, hn::IfThenElseZero(mask, hn::Mul(p, dp))};
}

// to[j] = (first[j], second[j]), rounded to bf16.
HWY_INLINE void store_pairs(V first, V second, Bf16* to) {
  const D d;
  const hn::RebindToUnsigned<D> pairs;
  const auto low = Stored<Bf16>::rounded_bits(d, first);
  const auto high = hn::ShiftLeft<16>(Stored<Bf16>::rounded_bits(d, second));
  hn::StoreU(hn::Or(low, high), pairs, reinterpret_cast<uint32_t*>(to));
}

inline void causal_softmax_backward_pairs(int64_t rows, int64_t columns, int64_t visible,
                                          int64_t reach, const float* log_sum_exp,
                                          const float* correction, const float* scores,
                                          const float* dprobability, int64_t stride,
                                          const SoftmaxPairs& to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t even = (columns + 1) / 2 * 2;
  const auto row = [&](int64_t r) {
    const Seen seen(columns, visible, reach, r);
    return SoftmaxRow{seen.begin,          seen.end,
                      log_sum_exp[r],      correction[r],
                      scores + r * stride, dprobability + r * stride};
  };
  for (int64_t r = 0; r < rows; r += 2) {
    const SoftmaxRow first = row(r);
    SoftmaxRow second = first;
    if (r + 1 < rows) {
      second = row(r + 1);
    } else {
      second.begin = second.end;
    }
    const int64_t begin = std::min(first.begin, second.begin) / lanes * lanes;
    const int64_t end = std::max(first.end, second.end);
    Bf16* const p_pairs = to.p_pairs + r * to.stride;
    Bf16* const ds_pairs = to.ds_pairs + r * to.stride;
    Bf16* const ds = to.ds + r * to.stride;
    int64_t i = begin;
    for (; i < end; i += lanes) {
      const SoftmaxGradient above = softmax_gradient(first, i), below = softmax_gradient(second, i);
      store_pairs(above.p, below.p, p_pairs + 2 * i);
      store_pairs(above.ds, below.ds, ds_pairs + 2 * i);
      Whole().store(above.ds, D(), ds + i);
      if (r + 1 < rows) Whole().store(below.ds, D(), ds + to.stride + i);
    }
    const auto clear = [&](int64_t from, int64_t until) {
      if (from >= until) return;
      std::fill(p_pairs + 2 * from, p_pairs + 2 * until, Bf16());
      std::fill(ds_pairs + 2 * from, ds_pairs + 2 * until, Bf16());
      std::fill(ds + from, ds + until, Bf16());
      if (r + 1 < rows) std::fill(ds + to.stride + from, ds + to.stride + until, Bf16());
    };
    clear(0, begin);
    clear(i, even);
  }
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
