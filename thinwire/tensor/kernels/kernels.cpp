#include "thinwire/tensor/kernels/kernels.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/kernels/kernels.cpp"
#include <hwy/foreach_target.h>

#include "thinwire/tensor/kernels/branches-inl.h"
#include "thinwire/tensor/kernels/simd-inl.h"
#include "thinwire/tensor/kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

template <typename T>
void add_rmsnorm(int64_t rows, int64_t width, const float* x, const T* delta, const float* weight,
                 float eps, float* sum, float* rstd, T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  for (int64_t r = 0; r < rows; ++r, x += n, sum += n, out += n) {
    V squares = hn::Zero(d);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      V v = lanes.load(d, x + i);
      if (delta != nullptr) v = hn::Add(v, lanes.load(d, delta + i));
      lanes.store(v, d, sum + i);
      squares = hn::MulAdd(v, v, squares);
    });
    const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(width);
    rstd[r] = 1.0f / std::sqrt(mean + eps);
    const V factor = hn::Set(d, rstd[r]);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V v = hn::Mul(lanes.load(d, sum + i), factor);
      lanes.store(hn::Mul(v, lanes.load(d, weight + i)), d, out + i);
    });
    if (delta != nullptr) delta += n;
  }
}

template <typename T>
void rmsnorm_backward(int64_t rows, int64_t width, const float* x, const float* rstd,
                      const float* weight, const T* dout, float* dx, T* dx_copy, float* dweight,
                      T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  for (int64_t r = 0; r < rows; ++r, x += n, dout += n, dx += n, out += n) {
    V dots = hn::Zero(d);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V weighted = hn::Mul(lanes.load(d, dout + i), lanes.load(d, weight + i));
      dots = hn::MulAdd(weighted, lanes.load(d, x + i), dots);
    });
    const float mean = hn::GetLane(hn::SumOfLanes(d, dots)) / static_cast<float>(width);
    const V factor = hn::Set(d, rstd[r]);
    const V along_x = hn::Set(d, mean * rstd[r] * rstd[r]);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V vx = lanes.load(d, x + i);
      const V vw = lanes.load(d, weight + i);
      const V vdout = lanes.load(d, dout + i);
      const V normed = hn::Mul(vx, factor);
      const V inner = hn::NegMulAdd(vx, along_x, hn::Mul(vw, vdout));
      const V vdx = hn::MulAdd(factor, inner, lanes.load(d, dx + i));
      lanes.store(vdx, d, dx + i);
      if (dx_copy != nullptr) lanes.store(vdx, d, dx_copy + i);
      lanes.store(hn::MulAdd(vdout, normed, lanes.load(d, dweight + i)), d, dweight + i);
      lanes.store(hn::Mul(normed, vw), d, out + i);
    });
    if (dx_copy != nullptr) dx_copy += n;
  }
}

HWY_INLINE V sigmoid(D d, V x) {
  // Beyond +-88 the result is 0 or 1 in fp32 anyway, and exp stays finite.
  const V clamped = hn::Max(hn::Min(x, hn::Set(d, 88.0f)), hn::Set(d, -88.0f));
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp_normal(d, hn::Neg(clamped))));
}

template <typename T>
void swiglu(int64_t rows, int64_t width, const T* gate_up, T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  for (int64_t r = 0; r < rows; ++r, gate_up += 2 * n, out += n) {
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V gate = lanes.load(d, gate_up + i);
      const V silu = hn::Mul(gate, sigmoid(d, gate));
      lanes.store(hn::Mul(silu, lanes.load(d, gate_up + n + i)), d, out + i);
    });
  }
}

template <typename T>
void swiglu_backward(int64_t rows, int64_t width, T* gate_up, const T* dout, T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  const V one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < rows; ++r, gate_up += 2 * n, dout += n, out += n) {
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V gate = lanes.load(d, gate_up + i);
      const V up = lanes.load(d, gate_up + n + i);
      const V vdout = lanes.load(d, dout + i);
      const V s = sigmoid(d, gate);
      const V silu = hn::Mul(gate, s);
      // silu'(g) = s (1 + g (1 - s))
      const V slope = hn::Mul(s, hn::MulAdd(gate, hn::Sub(one, s), one));
      lanes.store(hn::Mul(hn::Mul(vdout, up), slope), d, gate_up + i);
      lanes.store(hn::Mul(vdout, silu), d, gate_up + n + i);
      lanes.store(hn::Mul(silu, up), d, out + i);
    });
  }
}

// The CPU prefetches rows by itself only if they are contiguous in memory.
template <typename T>
HWY_INLINE void prefetch_row(const T* row, int64_t rows_left, int64_t width, int64_t stride) {
  constexpr int64_t kAhead = 6;
  if (rows_left <= kAhead || stride == width) return;
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < width; i += kLine) hwy::Prefetch(row + kAhead * stride + i);
}

template <typename From, typename To>
void rotate(Rotation rotation, int64_t rows, int64_t width, const float* cosine, const float* sine,
            float scale, const From* from, int64_t from_stride, To* to, int64_t to_stride) {
  const D d;
  const size_t half = static_cast<size_t>(width) / 2;
  const V cosine_scale = hn::Set(d, scale);
  const V sine_scale = hn::Set(d, rotation == Rotation::kInverse ? -scale : scale);
  for (int64_t r = 0; r < rows; ++r) {
    prefetch_row(from, rows - r, width, from_stride);
    prefetch_row(to, rows - r, width, to_stride);
    for_vectors(d, half, [&](size_t i, auto lanes) HWY_ATTR {
      const V c = hn::Mul(lanes.load(d, cosine + i), cosine_scale);
      const V s = hn::Mul(lanes.load(d, sine + i), sine_scale);
      const V a = lanes.load(d, from + i);
      const V b = lanes.load(d, from + half + i);
      lanes.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, to + i);
      lanes.store(hn::MulAdd(a, s, hn::Mul(b, c)), d, to + half + i);
    });
    cosine += half;
    sine += half;
    from += from_stride;
    to += to_stride;
  }
}

template <typename From, typename To>
void copy_rows(int64_t rows, int64_t width, const float* scale, const From* from,
               int64_t from_stride, To* to, int64_t to_stride) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    prefetch_row(from, rows - r, width, from_stride);
    prefetch_row(to, rows - r, width, to_stride);
    const V factor = hn::Set(d, scale == nullptr ? 1.0f : scale[r]);
    for_vectors(d, static_cast<size_t>(width), [&](size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Mul(lanes.load(d, from + i), factor), d, to + i);
    });
  }
}

void transpose(int64_t rows, int64_t columns, const float* from, int64_t from_stride, float* to,
               int64_t to_stride) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto down = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(from_stride)));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    for (int64_t c = 0; c < columns; ++c) {
      hn::StoreU(hn::GatherIndex(d, from + r * from_stride + c, down), d, to + c * to_stride + r);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

template <typename T>
void row_dots(int64_t rows, int64_t width, const T* a, int64_t a_stride, const T* b,
              int64_t b_stride, float* out) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, a += a_stride, b += b_stride) {
    prefetch_row(a, rows - r, width, a_stride);
    prefetch_row(b, rows - r, width, b_stride);
    V sum = hn::Zero(d);
    for_vectors(d, static_cast<size_t>(width), [&](size_t i, auto lanes) HWY_ATTR {
      sum = hn::MulAdd(lanes.load(d, a + i), lanes.load(d, b + i), sum);
    });
    out[r] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

template <typename T>
HWY_INLINE void multiply_row(T* row, size_t n, float factor) {
  const D d;
  const V vfactor = hn::Set(d, factor);
  for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Mul(lanes.load(d, row + i), vfactor), d, row + i);
  });
}

// The target's entry of the gradient, separately: p - 1 loses digits once p has been rounded to T.
template <typename T>
HWY_INLINE void store_target(float logit, const SoftmaxSum& sum, T* entry) {
  const float at_target = std::exp(logit - sum.shift) - sum.denominator;
  if constexpr (std::is_same_v<T, float>) {
    *entry = at_target;
  } else {
    *entry = to_bf16(at_target);
  }
}

// The greatest logit is not known until the end of the row, but exp may be taken relative to any
// value near it: the greatest so far, as long as none exceeds it by more than kHeadroom.
template <typename T>
float cross_entropy(int64_t vocabulary, float* logits, int64_t target, T* gradient,
                    SoftmaxSum* softmax) {
  constexpr size_t kPiece = 4096;  // logits that stay in the L1 cache
  constexpr float kHeadroom = 8;
  const size_t n = static_cast<size_t>(vocabulary);
  const float chosen = logits[target];
  float shift = std::numeric_limits<float>::lowest();
  float sum = 0;
  for (size_t first = 0; first < n; first += kPiece) {
    const size_t count = std::min(kPiece, n - first);
    float* const piece = logits + first;
    const float largest = row_max(piece, count);
    if (largest > shift + kHeadroom) {
      const float rescale = std::exp(shift - largest);
      sum *= rescale;
      if (gradient != nullptr) multiply_row(gradient, first, rescale);
      shift = largest;
    }
    sum += gradient == nullptr ? exp_row(piece, count, shift, piece)
                               : exp_row(piece, count, shift, gradient + first);
  }
  *softmax = {shift, sum};
  if (gradient != nullptr) store_target(chosen, *softmax, gradient + target);
  return shift - chosen + std::log(sum);
}

template <typename T>
void cross_entropy_again(int64_t count, const float* logits, int64_t target, const SoftmaxSum& sum,
                         T* gradient) {
  const bool has_target = target >= 0 && target < count;
  const float chosen = has_target ? logits[target] : 0;
  exp_row(logits, static_cast<size_t>(count), sum.shift, gradient);
  if (has_target) store_target(chosen, sum, gradient + target);
}

void add(int64_t count, const float* from, float* to) {
  const D d;
  for_vectors(d, static_cast<size_t>(count), [&](size_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Add(lanes.load(d, to + i), lanes.load(d, from + i)), d, to + i);
  });
}

template <typename T>
Kernels<T> table() {
  return {add_rmsnorm<T>,
          rmsnorm_backward<T>,
          norm_groups<T>,
          norm_groups_backward<T>,
          add_bias<T>,
          add_rows<T>,
          add_delta<T>,
          swiglu<T>,
          swiglu_backward<T>,
          layer_norm<T>,
          layer_norm_again<T>,
          layer_norm_backward<T>,
          gelu<T>,
          gelu_backward<T>,
          rotate<T, float>,
          rotate<float, T>,
          copy_rows<T, float>,
          copy_rows<float, T>,
          transpose,
          causal_softmax_tile<T>,
          causal_softmax_backward,
          causal_softmax_backward_pairs,
          row_dots<T>,
          cross_entropy<T>,
          cross_entropy_again<T>,
          add};
}

Kernels<float> table_f32() { return table<float>(); }
Kernels<Bf16> table_bf16() { return table<Bf16>(); }

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(table_f32);
HWY_EXPORT(table_bf16);

template <>
Kernels<float> dispatch_kernels() {
  return HWY_DYNAMIC_DISPATCH(table_f32)();
}

template <>
Kernels<Bf16> dispatch_kernels() {
  return HWY_DYNAMIC_DISPATCH(table_bf16)();
}

template <typename T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = dispatch_kernels<T>();
  return chosen;
}
template const Kernels<float>& kernels();
template const Kernels<Bf16>& kernels();

}  // namespace thinwire::tensor
#endif
