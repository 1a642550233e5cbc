#include "thinwire/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/simd.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/newton_schulz.h"

namespace thinwire::optim {
namespace {

constexpr double kScale = 0.2;

// momentum = mu momentum + g; direction = g + mu momentum
THINWIRE_CLONES void look_ahead(float* __restrict momentum, const float* __restrict gradient,
                                float* __restrict direction, int64_t count, float mu,
                                float gradient_scale) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_scale * gradient[i];
    momentum[i] = mu * momentum[i] + g;
    direction[i] = g + mu * momentum[i];
  }
}

THINWIRE_CLONES void move(float* __restrict p, const float* __restrict direction, int64_t count,
                          float shrink, float rate) {
  for (int64_t i = 0; i < count; ++i) p[i] = p[i] * shrink - rate * direction[i];
}

std::vector<TensorSpec> select(const tensor::Layout& layout, bool matrices) {
  std::vector<TensorSpec> specs;
  for (const TensorSpec& spec : layout.specs()) {
    if (spec.is_hidden_matrix() == matrices) specs.push_back(spec);
  }
  return specs;
}

class Muon final : public Optimizer {
 public:
  Muon(const config::OptimSection& options, const tensor::Layout& layout)
      : options_(options),
        matrices_(select(layout, true)),
        others_(select(layout, false)),
        momentum_(matrices_),
        m_(others_),
        v_(others_) {
    size_t largest = 0;
    for (const TensorSpec& spec : matrices_.specs()) {
      largest = std::max(largest, static_cast<size_t>(spec.count()));
    }
    direction_.resize(largest);
  }

  void step(tensor::Arena& params, const tensor::Arena& grads, float grad_scale, float lr,
            uint64_t step, ThreadPool& threads) override {
    size_t matrix = 0;
    size_t other = 0;
    for (size_t tensor = 0; tensor < params.layout().size(); ++tensor) {
      const TensorSpec& spec = params.layout().specs()[tensor];
      const std::span<float> p = params.tensor(tensor);
      const std::span<const float> g = grads.tensor(tensor);
      if (spec.is_hidden_matrix()) {
        step_matrix(spec, p, g, momentum_.tensor(matrix++), grad_scale, lr, threads);
      } else {
        const AdamwRule rule = adamw_rule(options_, grad_scale, lr, step, spec.decays());
        adamw_update(rule, p, m_.tensor(other), v_.tensor(other), g, nullptr, threads);
        ++other;
      }
    }
  }

  std::vector<OptimizerState> state() override {
    return {{"muon.momentum", momentum_.all()}, {"adamw.m", m_.all()}, {"adamw.v", v_.all()}};
  }

 private:
  void step_matrix(const TensorSpec& spec, std::span<float> p, std::span<const float> g,
                   std::span<float> momentum, float grad_scale, float lr, ThreadPool& threads) {
    const int64_t columns = spec.shape.back();
    const int64_t rows = spec.count() / columns;
    const std::span<float> direction = std::span(direction_).first(p.size());
    const auto mu = static_cast<float>(options_.muon_momentum);
    threads.for_ranges(spec.count(), 1024, [&](int64_t begin, int64_t end, int) {
      look_ahead(momentum.data() + begin, g.data() + begin, direction.data() + begin, end - begin,
                 mu, grad_scale);
    });
    newton_schulz_.orthogonalise(direction, rows, columns, threads);
    const double ratio = options_.muon_lr > 0 ? options_.muon_lr / options_.lr : 1;
    const double rate = lr * ratio;
    const double scale = kScale * std::sqrt(static_cast<double>(std::max(rows, columns)));
    const auto shrink = static_cast<float>(1 - rate * options_.weight_decay);
    threads.for_ranges(spec.count(), 1024, [&](int64_t begin, int64_t end, int) {
      move(p.data() + begin, direction.data() + begin, end - begin, shrink,
           static_cast<float>(rate * scale));
    });
  }

  config::OptimSection options_;
  tensor::Layout matrices_;
  tensor::Layout others_;
  tensor::Arena momentum_;
  tensor::Arena m_;
  tensor::Arena v_;
  std::vector<float> direction_;
  NewtonSchulz newton_schulz_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const config::OptimSection& options,
                                     const tensor::Layout& layout) {
  return std::make_unique<Muon>(options, layout);
}

}  // namespace thinwire::optim
