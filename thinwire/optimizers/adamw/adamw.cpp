#include "thinwire/optimizers/adamw/adamw.h"

#include <cmath>
#include <cstdint>

#include "thinwire/base/simd.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::optim {
namespace {

using Rule = tensor::AdamwRule;

// Elementwise and free of contraction: the same bits at any vector width.
THINWIRE_CLONES void update(float* __restrict p, float* __restrict m, float* __restrict v,
                            const float* __restrict g, int64_t count, Rule c) {
  for (int64_t i = 0; i < count; ++i) tensor::adamw_step(c, g[i], p[i], m[i], v[i]);
}

THINWIRE_CLONES void direct(float* __restrict values, float* __restrict m, float* __restrict v,
                            int64_t count, Rule c) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = c.beta1 * m[i] + c.keep1 * values[i];
    v[i] = c.beta2 * v[i] + c.keep2 * (values[i] * values[i]);
    const float denominator = std::sqrt(v[i]) / c.root2 + c.eps;
    values[i] = c.step_size * (m[i] / denominator);
  }
}

// base^exponent by repeated multiplication: only our own operations, so the same bits everywhere.
double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

// 1 - beta^t of both means.
struct Corrections {
  double mean, squares;
};
Corrections corrections(const method::AdamwOptions& adamw, const OptimizerStep& step) {
  return {1 - power(adamw.beta1, step.number + 1), 1 - power(adamw.beta2, step.number + 1)};
}

Rule rule_of(const method::OptimizerOptions& options, bool decays, const OptimizerStep& step) {
  const auto& adamw = options.section<method::AdamwOptions>("adamw");
  const float lr = step.learning_rate;
  const Corrections correction = corrections(adamw, step);
  return {.beta1 = static_cast<float>(adamw.beta1),
          .keep1 = static_cast<float>(1 - adamw.beta1),
          .beta2 = static_cast<float>(adamw.beta2),
          .keep2 = static_cast<float>(1 - adamw.beta2),
          .step_size = static_cast<float>(lr / correction.mean),
          .root2 = static_cast<float>(std::sqrt(correction.squares)),
          .eps = static_cast<float>(adamw.eps),
          .shrink = decays ? static_cast<float>(1 - lr * options.weight_decay) : 1.0f,
          .grad_scale = step.gradient_scale};
}

class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  void update(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) override {
    adamw_update(options(), spec(tensor.tensor).decays(), tensor, piece(tensor, 0),
                 piece(tensor, 1), step, threads);
  }

 protected:
  bool updates_on_device() const override { return true; }
  void update_on_device(const DeviceUpdate& tensor, const OptimizerStep& step,
                        ThreadPool& threads) override {
    adamw_update_on_device(options(), spec(tensor.tensor), tensor,
                           device_piece(tensor.tensor, 0, step),
                           device_piece(tensor.tensor, 1, step), step, threads);
  }
};

std::unique_ptr<Optimizer> make_adamw(const method::OptimizerOptions& options,
                                      const tensor::Layout& layout) {
  return std::make_unique<AdamW>(options, layout);
}

}  // namespace

void adamw_update(const method::OptimizerOptions& options, bool decays, const TensorUpdate& tensor,
                  const StateValues& m, const StateValues& v, const OptimizerStep& step,
                  ThreadPool& threads) {
  const Rule rule = rule_of(options, decays, step);
  const Elements rows = {tensor.begin, std::ssize(tensor.gradient)};
  update_pieces(options, step, tensor, rows, threads,
                [&](float* params, int64_t at, int64_t count) {
                  StatePart m_part(m, at, count), v_part(v, at, count);
                  const float* const gradient = tensor.gradient.data() + (at - rows.begin);
                  update(params, m_part.values(), v_part.values(), gradient, count, rule);
                  m_part.keep(step.number);
                  v_part.keep(step.number);
                });
}

void adamw_update_on_device(const method::OptimizerOptions& options, const TensorSpec& spec,
                            const DeviceUpdate& tensor, const DevicePiece& m, const DevicePiece& v,
                            const OptimizerStep& step, ThreadPool& threads) {
  const Rule rule = rule_of(options, spec.decays(), step);
  if (m.exact != nullptr) {
    const tensor::AdamwStep kernel = {rule,          spec.count(), tensor.gradient,
                                      tensor.params, m.exact,      v.exact};
    return tensor::launch(tensor.device, threads, kernel, kernel.rows());
  }
  const tensor::ChangeCoded<tensor::AdamwValue> kernel = {
      {rule, tensor.gradient, tensor.params}, spec.count(), {m.coded, v.coded}, tensor.failed};
  tensor::launch(tensor.device, threads, kernel, kernel.rows());
}

void adamw_direction(const method::OptimizerOptions& options, const OptimizerStep& step,
                     std::span<float> values, const StateValues& m, const StateValues& v,
                     ThreadPool& threads) {
  const Rule rule = rule_of(options, false, {step.number, 1});
  for_pieces(static_cast<int64_t>(values.size()), threads, [&](int64_t at, int64_t count) {
    StatePart m_part(m, at, count), v_part(v, at, count);
    direct(values.data() + at, m_part.values(), v_part.values(), count, rule);
    m_part.keep(step.number);
    v_part.keep(step.number);
  });
}

double bias_correction(const method::OptimizerOptions& options, const OptimizerStep& step) {
  const Corrections correction = corrections(options.section<method::AdamwOptions>("adamw"), step);
  return std::sqrt(correction.squares) / correction.mean;
}

// AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2).

// With t = step + 1 and decay only where TensorSpec::decays():
//   m = beta1 m + (1 - beta1) g      v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr wd) - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
const OptimizerEntry kAdamw = {"adamw", make_adamw};

}  // namespace thinwire::optim
