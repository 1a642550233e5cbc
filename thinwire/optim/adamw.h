// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm
// 2).
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// With t = step + 1 and decay only where TensorSpec::decays():
//   m = beta1 m + (1 - beta1) g      v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr wd) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// State: "adamw.m" and "adamw.v", each as long as the arena.
std::unique_ptr<Optimizer> make_adamw(const config::OptimSection& options,
                                      const tensor::Layout& layout);

}  // namespace thinwire::optim
