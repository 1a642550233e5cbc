#include "thinwire/optim/adamw.h"

#include <cmath>

#include "thinwire/base/simd.h"

namespace thinwire::optim {
namespace {

struct Coefficients {
  float beta1, keep1;  // keep = 1 - beta
  float beta2, keep2;
  float step_size;  // lr / (1 - beta1^t)
  float root2;      // sqrt(1 - beta2^t)
  float eps;
  float shrink;  // 1 - lr * weight decay
  float grad_scale;
};

// Elementwise and free of contraction: the same bits at any vector width.
THINWIRE_CLONES void update(float* __restrict p, float* __restrict m, float* __restrict v,
                            const float* __restrict g, int64_t count, Coefficients c) {
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
    for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
      const TensorSpec& spec = layout.specs()[tensor];
      const Coefficients c = coefficients(grad_scale, lr, step, spec.decays());
      float* p = params.tensor(tensor).data();
      float* m = m_.tensor(tensor).data();
      float* v = v_.tensor(tensor).data();
      const float* g = grads.tensor(tensor).data();
      threads.for_ranges(spec.count(), 1024, [&](int64_t begin, int64_t end, int) {
        update(p + begin, m + begin, v + begin, g + begin, end - begin, c);
      });
    }
  }

  std::vector<OptimizerState> state() override {
    return {{"adamw.m", m_.all()}, {"adamw.v", v_.all()}};
  }

 private:
  Coefficients coefficients(float grad_scale, float lr, uint64_t step, bool decays) const {
    const double correction1 = 1 - power(options_.beta1, step + 1);
    const double correction2 = 1 - power(options_.beta2, step + 1);
    return {.beta1 = static_cast<float>(options_.beta1),
            .keep1 = static_cast<float>(1 - options_.beta1),
            .beta2 = static_cast<float>(options_.beta2),
            .keep2 = static_cast<float>(1 - options_.beta2),
            .step_size = static_cast<float>(lr / correction1),
            .root2 = static_cast<float>(std::sqrt(correction2)),
            .eps = static_cast<float>(options_.eps),
            .shrink = decays ? static_cast<float>(1 - lr * options_.weight_decay) : 1.0f,
            .grad_scale = grad_scale};
  }

  config::OptimSection options_;
  tensor::Arena m_;
  tensor::Arena v_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const config::OptimSection& options,
                                      const tensor::Layout& layout) {
  return std::make_unique<AdamW>(options, layout);
}

}  // namespace thinwire::optim
