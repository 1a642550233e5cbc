// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm
// 2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// With t = step + 1 and decay only where TensorSpec::decays():
//   m = beta1 m + (1 - beta1) g      v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr wd) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// State: "adamw.m" and "adamw.v", each as long as the arena.
std::unique_ptr<Optimizer> make_adamw(const config::OptimSection& options,
                                      const tensor::Layout& layout);

// One tensor's part of such a step, for optimizers that leave some tensors to AdamW.
struct AdamwRule {
  float beta1, keep1;  // keep = 1 - beta
  float beta2, keep2;
  float step_size;  // lr / (1 - beta1^t)
  float root2;      // sqrt(1 - beta2^t)
  float eps;
  float shrink;  // 1 - lr * weight decay
  float grad_scale;
};
AdamwRule adamw_rule(const config::OptimSection& options, float grad_scale, float lr, uint64_t step,
                     bool decays);
// All of the same length. p_rounded, if not null, becomes p in bf16.
void adamw_update(const AdamwRule& rule, std::span<float> p, std::span<float> m, std::span<float> v,
                  std::span<const float> g, Bf16* p_rounded, ThreadPool& threads);

}  // namespace thinwire::optim
