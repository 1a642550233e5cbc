// The passes between the matrix products of the LibTorch backend and the optimizer's pass, written
// once for CPU and GPU: what a test shows on the CPU holds on a GPU except for the launch
// (launch.h) and the sums over lanes. Each kernel is a function object that is called once per row
// with the lanes that share the row's elements: one on the CPU, the threads of a block on a GPU. T
// is float or Bf16; arithmetic is fp32.
//
// Shape suffixes: R rows (tokens), W width, F width of the MLP, V vocabulary, H heads, D head size,
// B blocks.
#pragma once

#include <cmath>
#include <cstdint>

#include "thinwire/base/half.h"

#if defined(__CUDACC__)
#define THINWIRE_DEVICE __host__ __device__
#define THINWIRE_DEVICE_UNROLL _Pragma("unroll")  // so that small arrays are in registers
#define THINWIRE_DEVICE_NO_UNROLL _Pragma("unroll 1")
#else
#define THINWIRE_DEVICE
#define THINWIRE_DEVICE_UNROLL
#define THINWIRE_DEVICE_NO_UNROLL
#endif

namespace thinwire::tensor {

THINWIRE_DEVICE inline float widen(float value) { return value; }
THINWIRE_DEVICE inline float widen(Bf16 value) { return to_float(value); }
THINWIRE_DEVICE inline void store(float value, float& to) { to = value; }
THINWIRE_DEVICE inline void store(float value, Bf16& to) { to = to_bf16(value); }

// The only lane of a row. Its counterpart on a GPU has the same members; there sum() and maximum()
// are over all lanes and return the same bits to each. They must be called by all lanes, and so
// must barrier(), after which a lane sees what the others wrote before it.
struct OnlyLane {
  int64_t index() const { return 0; }
  int64_t count() const { return 1; }
  float sum(float value) const { return value; }
  float maximum(float value) const { return value; }
  void barrier() const {}
};

// The threads of a block, unless a kernel says otherwise (kBlockThreads).
inline constexpr int kBlockThreads = 256;

// x = table[token]
struct Embed {
  int64_t width;
  const int32_t* token_R;
  const float* table_VW;
  float* x_RW;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const float* const from = table_VW + token_R[row] * width;
    for (int64_t i = lanes.index(); i < width; i += lanes.count()) x_RW[row * width + i] = from[i];
  }
};

// Kernels::add_rmsnorm of kernels.h: sum = x + delta (null: x), out = sum * rstd * weight.
template <typename T>
struct AddRmsNorm {
  int64_t width;
  float eps;
  const float* x_RW;
  const T* delta_RW;
  const float* weight_W;
  float* sum_RW;
  float* rstd_R;
  T* out_RW;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t first = row * width;
    float square = 0;
    for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
      const float value =
          x_RW[first + i] + (delta_RW == nullptr ? 0.0f : widen(delta_RW[first + i]));
      sum_RW[first + i] = value;
      square += value * value;
    }
    const float mean = lanes.sum(square) / static_cast<float>(width);
    const float rstd = 1.0f / std::sqrt(mean + eps);
    if (lanes.index() == 0) rstd_R[row] = rstd;
    for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
      store(sum_RW[first + i] * rstd * weight_W[i], out_RW[first + i]);
    }
  }
};

// Kernels::rmsnorm_backward of kernels.h. Called once per block: block b takes every row whose
// index modulo `blocks` is b and leaves their part of the weight's gradient in dweight_BW. `out` is
// written again.
template <typename T>
struct RmsNormBackward {
  int64_t rows;
  int64_t width;
  int64_t blocks;  // at most `rows`
  const float* x_RW;
  const float* rstd_R;
  const float* weight_W;
  const T* dout_RW;
  float* dx_RW;   // added to
  T* dx_copy_RW;  // dx rounded; null: not needed
  float* dweight_BW;
  T* out_RW;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t block) const {
    for (int64_t row = block; row < rows; row += blocks) {
      const int64_t first = row * width;
      float dot = 0;
      for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
        dot += widen(dout_RW[first + i]) * weight_W[i] * x_RW[first + i];
      }
      const float rstd = rstd_R[row];
      const float along = lanes.sum(dot) / static_cast<float>(width) * rstd * rstd;
      for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
        const float x = x_RW[first + i], dout = widen(dout_RW[first + i]);
        const float dx = dx_RW[first + i] + rstd * (weight_W[i] * dout - x * along);
        dx_RW[first + i] = dx;
        if (dx_copy_RW != nullptr) store(dx, dx_copy_RW[first + i]);
        float& dweight = dweight_BW[block * width + i];
        dweight = (row == block ? 0.0f : dweight) + dout * x * rstd;
        store(x * rstd * weight_W[i], out_RW[first + i]);
      }
    }
  }
};

// Kernels::norm_groups of kernels.h; rows of x, raw and rstd are the strides apart.
template <typename T>
struct NormGroupsForward {
  int64_t groups, width;
  int64_t stride, raw_stride, rstd_stride;
  float eps;
  const float* weight_W;
  T* x;
  T* raw;
  float* rstd;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    for (int64_t group = 0; group < groups; ++group) {
      T* const to = x + row * stride + group * width;
      T* const kept = raw + row * raw_stride + group * width;
      float square = 0;
      for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
        const float value = widen(to[i]);
        kept[i] = to[i];
        square += value * value;
      }
      const float mean = lanes.sum(square) / static_cast<float>(width);
      const float inverse = 1.0f / std::sqrt(mean + eps);
      if (lanes.index() == 0) rstd[row * rstd_stride + group] = inverse;
      for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
        store(widen(kept[i]) * inverse * weight_W[i], to[i]);
      }
    }
  }
};

// Kernels::norm_groups_backward of kernels.h, called once per block as RmsNormBackward is.
template <typename T>
struct NormGroupsBackward {
  int64_t rows;
  int64_t blocks;  // at most `rows`
  int64_t groups, width;
  int64_t stride, raw_stride, rstd_stride;
  const T* raw;
  const float* rstd;
  const float* weight_W;
  const T* dout;
  T* dx;
  float* dweight_BW;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t block) const {
    for (int64_t row = block; row < rows; row += blocks) {
      for (int64_t group = 0; group < groups; ++group) {
        const T* const x = raw + row * raw_stride + group * width;
        const int64_t first = row * stride + group * width;
        float dot = 0;
        for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
          dot += widen(dout[first + i]) * weight_W[i] * widen(x[i]);
        }
        const float inverse = rstd[row * rstd_stride + group];
        const float along = lanes.sum(dot) / static_cast<float>(width) * inverse * inverse;
        const bool begins = row == block && group == 0;
        for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
          const float value = widen(x[i]), gradient = widen(dout[first + i]);
          store(inverse * (weight_W[i] * gradient - value * along), dx[first + i]);
          float& dweight = dweight_BW[block * width + i];
          dweight = (begins ? 0.0f : dweight) + gradient * value * inverse;
        }
      }
    }
  }
};

// Rotary positions (Kernels::rotate_* of kernels.h) for the first `heads` heads of each row, in
// place. Row r is at position r modulo `sequence`; direction -1 is the inverse.
template <typename T>
struct Rotate {
  int64_t sequence;
  int64_t heads;
  int64_t half;    // D / 2
  int64_t stride;  // between rows
  float direction;
  const float* cosine;  // [sequence, D / 2]
  const float* sine;
  T* x;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t angles = row % sequence * half;
    for (int64_t i = lanes.index(); i < heads * half; i += lanes.count()) {
      const int64_t pair = i % half;
      T& first = x[row * stride + i / half * 2 * half + pair];
      T& second = (&first)[half];
      const float a = widen(first), b = widen(second);
      const float c = cosine[angles + pair], s = direction * sine[angles + pair];
      store(a * c - b * s, first);
      store(b * c + a * s, second);
    }
  }
};

// Kernels::swiglu of kernels.h: out = silu(gate) * up.
template <typename T>
struct SwiGlu {
  int64_t width;
  const T* gate_up_R2F;
  T* out_RF;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const T* const gate = gate_up_R2F + row * 2 * width;
    for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
      const float g = widen(gate[i]), u = widen(gate[width + i]);
      store(g / (1.0f + std::exp(-g)) * u, out_RF[row * width + i]);
    }
  }
};

// Kernels::swiglu_backward of kernels.h: gate_up becomes its gradient, `out` is written again.
template <typename T>
struct SwiGluBackward {
  int64_t width;
  T* gate_up_R2F;
  const T* dout_RF;
  T* out_RF;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    T* const gate = gate_up_R2F + row * 2 * width;
    for (int64_t i = lanes.index(); i < width; i += lanes.count()) {
      const float g = widen(gate[i]), u = widen(gate[width + i]);
      const float dout = widen(dout_RF[row * width + i]);
      const float sigmoid = 1.0f / (1.0f + std::exp(-g));
      const float silu = g * sigmoid;
      store(dout * u * sigmoid * (1.0f + g * (1.0f - sigmoid)), gate[i]);
      store(dout * silu, gate[width + i]);
      store(silu * u, out_RF[row * width + i]);
    }
  }
};

// Cross entropy of a row of logits with its target, in nats, multiplied by the row's factor (null:
// 1); if `gradients`, the logits become scale * factor * (softmax - one_hot(target)).
template <typename T>
struct CrossEntropy {
  int64_t vocabulary;
  const int32_t* target_R;
  const float* factor_R;
  bool gradients;
  float scale;
  T* logits_RV;
  float* loss_R;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    T* const logits = logits_RV + row * vocabulary;
    float largest = -INFINITY, sum = 0;
    for (int64_t i = lanes.index(); i < vocabulary; i += lanes.count()) {
      largest = std::fmax(largest, widen(logits[i]));
    }
    largest = lanes.maximum(largest);
    for (int64_t i = lanes.index(); i < vocabulary; i += lanes.count()) {
      sum += std::exp(widen(logits[i]) - largest);
    }
    sum = lanes.sum(sum);
    const int64_t target = target_R[row];
    const float factor = factor_R == nullptr ? 1.0f : factor_R[row];
    if (lanes.index() == 0) {
      loss_R[row] = factor * (std::log(sum) + largest - widen(logits[target]));
    }
    if (!gradients) return;
    const float inverse = 1.0f / sum, step = scale * factor;
    lanes.sum(0);  // the target's logit is read before it is written
    for (int64_t i = lanes.index(); i < vocabulary; i += lanes.count()) {
      const float probability = std::exp(widen(logits[i]) - largest) * inverse;
      store(step * (probability - (i == target ? 1.0f : 0.0f)), logits[i]);
    }
  }
};

}  // namespace thinwire::tensor
