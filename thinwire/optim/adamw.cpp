#include "thinwire/optim/adamw.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/simd.h"
#include "thinwire/tensor/kernels.h"

namespace thinwire::optim {
namespace {

// Elements whose parameters are still in the first cache when they are rounded.
constexpr int64_t kPiece = 2048;

// Elementwise and free of contraction: the same bits at any vector width.
THINWIRE_CLONES void update(float* __restrict p, float* __restrict m, float* __restrict v,
                            const float* __restrict g, int64_t count, AdamwRule c) {
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * c.grad_scale;
    m[i] = c.beta1 * m[i] + c.keep1 * grad;
    v[i] = c.beta2 * v[i] + c.keep2 * (grad * grad);
    const float denominator = std::sqrt(v[i]) / c.root2 + c.eps;
    p[i] = p[i] * c.shrink - c.step_size * (m[i] / denominator);
  }
}

// base^exponent by repeated multiplication: our own operations, so the same bits everywhere.
double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

class AdamW final : public Optimizer {
 public:
  AdamW(const config::OptimSection& options, const tensor::Layout& layout)
      : options_(options), m_(layout), v_(layout) {}

  void step(tensor::Arena& params, const tensor::Arena& grads, float grad_scale, float lr,
            uint64_t step, ThreadPool& threads) override {
    const tensor::Layout& layout = params.layout();
    Bf16* const rounded = params.rounded();
    for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
      const bool decays = layout.specs()[tensor].decays();
      adamw_update(adamw_rule(options_, grad_scale, lr, step, decays), params.tensor(tensor),
                   m_.tensor(tensor), v_.tensor(tensor), grads.tensor(tensor),
                   rounded == nullptr ? nullptr : rounded + layout.offset(tensor), threads);
    }
    if (rounded != nullptr) params.set_rounded_current();
  }

  std::vector<OptimizerState> state() override {
    return {{"adamw.m", m_.all()}, {"adamw.v", v_.all()}};
  }

 private:
  config::OptimSection options_;
  tensor::Arena m_;
  tensor::Arena v_;
};

}  // namespace

AdamwRule adamw_rule(const config::OptimSection& options, float grad_scale, float lr, uint64_t step,
                     bool decays) {
  const double correction1 = 1 - power(options.beta1, step + 1);
  const double correction2 = 1 - power(options.beta2, step + 1);
  return {.beta1 = static_cast<float>(options.beta1),
          .keep1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .keep2 = static_cast<float>(1 - options.beta2),
          .step_size = static_cast<float>(lr / correction1),
          .root2 = static_cast<float>(std::sqrt(correction2)),
          .eps = static_cast<float>(options.eps),
          .shrink = decays ? static_cast<float>(1 - lr * options.weight_decay) : 1.0f,
          .grad_scale = grad_scale};
}

void adamw_update(const AdamwRule& rule, std::span<float> p, std::span<float> m, std::span<float> v,
                  std::span<const float> g, Bf16* p_rounded, ThreadPool& threads) {
  threads.for_ranges(static_cast<int64_t>(p.size()), 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      update(p.data() + at, m.data() + at, v.data() + at, g.data() + at, count, rule);
      if (p_rounded == nullptr) continue;
      tensor::kernels<Bf16>().store_rows(1, count, nullptr, p.data() + at, count, p_rounded + at,
                                         count);
    }
  });
}

std::unique_ptr<Optimizer> make_adamw(const config::OptimSection& options,
                                      const tensor::Layout& layout) {
  return std::make_unique<AdamW>(options, layout);
}

}  // namespace thinwire::optim
