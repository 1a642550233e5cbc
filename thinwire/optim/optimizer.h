// Local optimizers: one pass over the parameter arena. The arithmetic is fixed (no contraction, no
// library maths but the correctly rounded square root and division), so that replicas fed the same
// gradients stay bit-identical on every instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/named_span.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::optim {

using OptimizerState = NamedSpan<float>;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates `params` from `grads * grad_scale` at step `step` (from 0) with learning rate `lr`.
  virtual void step(tensor::Arena& params, const tensor::Arena& grads, float grad_scale, float lr,
                    uint64_t step, ThreadPool& threads) = 0;
  // Everything that must be saved besides the step number.
  virtual std::vector<OptimizerState> state() = 0;
};

struct OptimizerEntry {
  std::string_view name;  // value of optim.method
  std::unique_ptr<Optimizer> (*make)(const config::OptimSection& options,
                                     const tensor::Layout& layout);
};

std::span<const OptimizerEntry> all_optimizers();
// Throws UsageError that lists the known names.
std::unique_ptr<Optimizer> make_optimizer(const config::OptimSection& options,
                                          const tensor::Layout& layout);

// sqrt of the sum of squares, in an order fixed by position alone (not by threads or vector width).
double global_norm(std::span<const float> values, ThreadPool& threads);
// The factor that brings a gradient of this norm to at most `clip` (0: never): min(1, clip / (norm
// + 1e-6)).
float clip_scale(double norm, double clip);

}  // namespace thinwire::optim
