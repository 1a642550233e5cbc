// The passes of a step over whole arenas, written once for CPU and GPU like those of
// portable_kernels.h. Every operation is rounded by itself and sums are formed in the order in
// which the host's code forms them, so the results have the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

// AdamW's numbers for one tensor of a step (optim/adamw.h).
struct AdamwRule {
  float beta1, keep1;  // keep = 1 - beta
  float beta2, keep2;
  float step_size;  // lr / (1 - beta1^t)
  float root2;      // sqrt(1 - beta2^t)
  float eps;
  float shrink;  // 1 - lr * weight decay
  float grad_scale;
};

THINWIRE_DEVICE inline void adamw_step(const AdamwRule& c, float g, float& p, float& m, float& v) {
  const float grad = g * c.grad_scale;
  m = c.beta1 * m + c.keep1 * grad;
  v = c.beta2 * v + c.keep2 * (grad * grad);
  const float denominator = std::sqrt(v) / c.root2 + c.eps;
  p = p * c.shrink - c.step_size * (m / denominator);
}

// A step of AdamW on `count` parameters, kRowValues of them for each row.
struct AdamwStep {
  static constexpr int64_t kRowValues = 4096;
  int64_t rows() const { return (count + kRowValues - 1) / kRowValues; }

  AdamwRule rule;
  int64_t count;
  const float* gradient;
  float* params;
  float* m;
  float* v;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t begin = row * kRowValues;
    const int64_t end = begin + kRowValues < count ? begin + kRowValues : count;
    int64_t i = begin + lanes.index();
    for (; i + (kTogether - 1) * lanes.count() < end; i += kTogether * lanes.count()) {
      together(i, lanes.count());
    }
    for (; i < end; i += lanes.count()) adamw_step(rule, gradient[i], params[i], m[i], v[i]);
  }

 private:
  static constexpr int kTogether = 4;  // values that a thread loads before it stores any

  THINWIRE_DEVICE void together(int64_t first, int64_t stride) const {
    float g[kTogether], p[kTogether], mean[kTogether], square[kTogether];
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      g[k] = gradient[first + k * stride];
      p[k] = params[first + k * stride];
      mean[k] = m[first + k * stride];
      square[k] = v[first + k * stride];
    }
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      adamw_step(rule, g[k], p[k], mean[k], square[k]);
      params[first + k * stride] = p[k];
      m[first + k * stride] = mean[k];
      v[first + k * stride] = square[k];
    }
  }
};

// The sum of the squares of each block of kNormBlock of `count` values, as optim::global_norm forms
// it; kBlocks of them for each row.
struct SquaresOfBlocks {
  static constexpr int64_t kBlocks = 16;
  int64_t blocks() const { return (count + kNormBlock - 1) / kNormBlock; }
  int64_t rows() const { return (blocks() + kBlocks - 1) / kBlocks; }

  int64_t count;
  const float* values;
  double* lane_sums = nullptr;  // [blocks, kNormLanes]
  double* sums = nullptr;       // [blocks]

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t first = row * kBlocks;
    for (int64_t i = lanes.index(); i < kBlocks * kNormLanes; i += lanes.count()) {
      const int64_t begin = (first + i / kNormLanes) * kNormBlock;
      const int64_t end = begin + kNormBlock < count ? begin + kNormBlock : count;
      if (begin >= count) continue;
      double sum = 0;
      for (int64_t at = begin + i % kNormLanes; at < end; at += kNormLanes) {
        const double value = values[at];
        sum += value * value;
      }
      lane_sums[first * kNormLanes + i] = sum;
    }
    lanes.barrier();
    for (int64_t block = first + lanes.index(); block < first + kBlocks; block += lanes.count()) {
      if (block * kNormBlock >= count) continue;
      double sum = 0;
      for (int64_t lane = 0; lane < kNormLanes; ++lane) {
        sum += lane_sums[block * kNormLanes + lane];
      }
      sums[block] = sum;
    }
  }
};

}  // namespace thinwire::tensor
