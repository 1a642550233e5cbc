// Kernels around the branches of a block (kernels.h): norms of groups of columns, biases, the
// addition to the residual stream, and the LayerNorm and GELU of encoders. Compiled once for each
// instruction set (Highway's toggled include guard).
#if defined(THINWIRE_TENSOR_BRANCHES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_BRANCHES_INL_H_
#undef THINWIRE_TENSOR_BRANCHES_INL_H_
#else
#define THINWIRE_TENSOR_BRANCHES_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <typename T>
void norm_groups(const NormGroups& shape, const float* weight, float eps, T* x, T* raw,
                 float* rstd) {
  const D d;
  const size_t n = static_cast<size_t>(shape.width);
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t g = 0; g < shape.groups; ++g) {
      T* const row = x + r * shape.stride + g * shape.width;
      T* const kept = raw + r * shape.raw_stride + g * shape.width;
      V squares = hn::Zero(d);
      for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
        const V v = lanes.load(d, row + i);
        lanes.store(v, d, kept + i);
        squares = hn::MulAdd(v, v, squares);
      });
      const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(shape.width);
      const float inverse = 1.0f / std::sqrt(mean + eps);
      rstd[r * shape.rstd_stride + g] = inverse;
      const V factor = hn::Set(d, inverse);
      for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
        const V v = hn::Mul(lanes.load(d, kept + i), factor);
        lanes.store(hn::Mul(v, lanes.load(d, weight + i)), d, row + i);
      });
    }
  }
}

template <typename T>
void norm_groups_backward(const NormGroups& shape, const T* raw, const float* rstd,
                          const float* weight, const T* dout, T* dx, float* dweight) {
  const D d;
  const size_t n = static_cast<size_t>(shape.width);
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t g = 0; g < shape.groups; ++g) {
      const T* const x = raw + r * shape.raw_stride + g * shape.width;
      const T* const from = dout + r * shape.stride + g * shape.width;
      T* const to = dx + r * shape.stride + g * shape.width;
      V dots = hn::Zero(d);
      for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
        const V weighted = hn::Mul(lanes.load(d, from + i), lanes.load(d, weight + i));
        dots = hn::MulAdd(weighted, lanes.load(d, x + i), dots);
      });
      const float mean = hn::GetLane(hn::SumOfLanes(d, dots)) / static_cast<float>(shape.width);
      const float inverse = rstd[r * shape.rstd_stride + g];
      const V factor = hn::Set(d, inverse);
      const V along_x = hn::Set(d, mean * inverse * inverse);
      for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
        const V vx = lanes.load(d, x + i);
        const V vdout = lanes.load(d, from + i);
        const V weighted = hn::Mul(vdout, lanes.load(d, weight + i));
        const V sum = hn::MulAdd(hn::Mul(vdout, factor), vx, lanes.load(d, dweight + i));
        lanes.store(sum, d, dweight + i);
        lanes.store(hn::Mul(factor, hn::NegMulAdd(vx, along_x, weighted)), d, to + i);
      });
    }
  }
}

template <typename T>
void add_bias(int64_t rows, int64_t width, const float* bias, T* x, int64_t stride) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    for_vectors(d, static_cast<size_t>(width), [&](size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(d, x + i), lanes.load(d, bias + i)), d, x + i);
    });
  }
}

template <typename T>
void add_rows(int64_t rows, int64_t width, const T* x, int64_t stride, float* sum) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    for_vectors(d, static_cast<size_t>(width), [&](size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(d, sum + i), lanes.load(d, x + i)), d, sum + i);
    });
  }
}

template <typename T>
void add_delta(int64_t count, const float* x, const T* delta, float* sum, T* rounded) {
  const D d;
  for_vectors(d, static_cast<size_t>(count), [&](size_t i, auto lanes) HWY_ATTR {
    V v = lanes.load(d, x + i);
    if (delta != nullptr) v = hn::Add(v, lanes.load(d, delta + i));
    lanes.store(v, d, sum + i);
    lanes.store(v, d, rounded + i);
  });
}

// y = normed * weight + bias of one row, and the same rounded; y may be null.
template <typename T>
HWY_INLINE void scale_and_shift(size_t n, const float* normed, const float* weight,
                                const float* bias, float* y, T* out) {
  const D d;
  for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
    const V v =
        hn::MulAdd(lanes.load(d, normed + i), lanes.load(d, weight + i), lanes.load(d, bias + i));
    if (y != nullptr) lanes.store(v, d, y + i);
    lanes.store(v, d, out + i);
  });
}

template <typename T>
void layer_norm(int64_t rows, int64_t width, const float* x, const T* delta, const float* weight,
                const float* bias, float eps, float* normed, float* rstd, float* y, T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  const float share = 1.0f / static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r, x += n, normed += n, y += n, out += n) {
    V sums = hn::Zero(d);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      V v = lanes.load(d, x + i);
      if (delta != nullptr) v = hn::Add(v, lanes.load(d, delta + i));
      lanes.store(v, d, normed + i);
      sums = hn::Add(sums, v);
    });
    const float mean = hn::GetLane(hn::SumOfLanes(d, sums)) * share;
    const V center = hn::Set(d, mean);
    V squares = hn::Zero(d);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V v = hn::Sub(lanes.load_or(d, normed + i, mean), center);
      squares = hn::MulAdd(v, v, squares);
    });
    rstd[r] = 1.0f / std::sqrt(hn::GetLane(hn::SumOfLanes(d, squares)) * share + eps);
    const V factor = hn::Set(d, rstd[r]);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Mul(hn::Sub(lanes.load(d, normed + i), center), factor), d, normed + i);
    });
    scale_and_shift(n, normed, weight, bias, y, out);
    if (delta != nullptr) delta += n;
  }
}

template <typename T>
void layer_norm_again(int64_t rows, int64_t width, const float* normed, const float* weight,
                      const float* bias, float* y, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * width;
    scale_and_shift(static_cast<size_t>(width), normed + at, weight, bias, y + at, out + at);
  }
}

template <typename T>
void layer_norm_backward(int64_t rows, int64_t width, const float* normed, const float* rstd,
                         const float* weight, const float* bias, const T* dout, float* dx,
                         T* dx_copy, float* dweight, float* dbias, T* out) {
  const D d;
  const size_t n = static_cast<size_t>(width);
  const float share = 1.0f / static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r, normed += n, dout += n, dx += n, out += n) {
    V sums = hn::Zero(d), dots = hn::Zero(d);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V dy = hn::Add(lanes.load(d, dx + i), lanes.load(d, dout + i));
      const V x = lanes.load(d, normed + i);
      const V weighted = hn::Mul(dy, lanes.load(d, weight + i));
      sums = hn::Add(sums, weighted);
      dots = hn::MulAdd(weighted, x, dots);
      lanes.store(dy, d, dx + i);
      lanes.store(hn::MulAdd(dy, x, lanes.load(d, dweight + i)), d, dweight + i);
      lanes.store(hn::Add(dy, lanes.load(d, dbias + i)), d, dbias + i);
    });
    const V mean = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sums)) * share);
    const V along = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, dots)) * share);
    const V factor = hn::Set(d, rstd[r]);
    for_vectors(d, n, [&](size_t i, auto lanes) HWY_ATTR {
      const V weighted = hn::Mul(lanes.load(d, dx + i), lanes.load(d, weight + i));
      const V x = lanes.load(d, normed + i);
      const V v = hn::Mul(factor, hn::NegMulAdd(x, along, hn::Sub(weighted, mean)));
      lanes.store(v, d, dx + i);
      if (dx_copy != nullptr) lanes.store(v, d, dx_copy + i);
    });
    scale_and_shift<T>(n, normed, weight, bias, nullptr, out);
    if (dx_copy != nullptr) dx_copy += n;
  }
}

// What GELU and its slope need of x: the normal distribution's cumulative probability and x times
// its density. The error function is Abramowitz and Stegun's 7.1.26, exact to 1.5e-7.
struct NormalParts {
  V cumulative, scaled_density;
};

HWY_INLINE NormalParts normal_parts(D d, V x) {
  // Beyond +-13 the results are those of fp32's limits, and the square stays finite.
  const V bounded = hn::Max(hn::Min(x, hn::Set(d, 13.0f)), hn::Set(d, -13.0f));
  const V z = hn::Mul(hn::Abs(bounded), hn::Set(d, 0.70710678f));
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), z, one));
  V p = hn::MulAdd(hn::Set(d, 1.061405429f), t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  const V bell = exp_normal(d, hn::Neg(hn::Mul(z, z)));
  const V tail = hn::Mul(hn::Set(d, 0.5f), hn::Mul(hn::Mul(p, t), bell));
  const V cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  return {cumulative, hn::Mul(hn::Mul(bounded, hn::Set(d, 0.39894228f)), bell)};
}

template <typename T>
void gelu(int64_t count, const T* x, T* out) {
  const D d;
  for_vectors(d, static_cast<size_t>(count), [&](size_t i, auto lanes) HWY_ATTR {
    const V v = lanes.load(d, x + i);
    lanes.store(hn::Mul(v, normal_parts(d, v).cumulative), d, out + i);
  });
}

template <typename T>
void gelu_backward(int64_t count, T* x, const T* dout, T* out) {
  const D d;
  for_vectors(d, static_cast<size_t>(count), [&](size_t i, auto lanes) HWY_ATTR {
    const V v = lanes.load(d, x + i);
    const V gradient = lanes.load(d, dout + i);
    const NormalParts parts = normal_parts(d, v);
    const V slope = hn::Add(parts.cumulative, parts.scaled_density);
    lanes.store(hn::Mul(gradient, slope), d, x + i);
    lanes.store(hn::Mul(v, parts.cumulative), d, out + i);
  });
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
