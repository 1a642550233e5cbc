// Kernels around a branch of a block (kernels.h): norms of groups of columns, biases, and the
// addition to the residual stream. Compiled once for each instruction set (Highway's toggled
// include guard).
#if defined(THINWIRE_TENSOR_NORM_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_TENSOR_NORM_GROUPS_INL_H_
#undef THINWIRE_TENSOR_NORM_GROUPS_INL_H_
#else
#define THINWIRE_TENSOR_NORM_GROUPS_INL_H_
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

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THINWIRE_TENSOR_NORM_GROUPS_INL_H_
