#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/methods/distro/distro_applier.h"
#include "thinwire/optimizers/muon/newton_schulz.h"

namespace thinwire::sync {
namespace {

constexpr int kSmallestExponent = -126;  // of normal numbers

THINWIRE_CLONES void add_to_mean(float* __restrict momentum, const float* __restrict aggregate,
                                 int64_t count, float mu) {
  for (int64_t i = 0; i < count; ++i) momentum[i] = mu * momentum[i] + aggregate[i];
}

THINWIRE_CLONES void move_by_sign(float* __restrict p, const float* __restrict aggregate,
                                  int64_t count, float shrink, float rate) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = aggregate[i];
    p[i] = p[i] * shrink - (x > 0 ? rate : x < 0 ? -rate : 0.0f);
  }
}

// The iteration takes very small matrices for zero, and an aggregate is as small as the learning
// rate. Exact: the factor is a power of two.
void scale_to_one(std::span<float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  if (largest == 0) return;
  const int exponent = std::max(std::ilogb(largest), kSmallestExponent);
  const float factor = std::ldexp(1.0f, -exponent);
  for (float& value : values) value *= factor;
}

method::OptimizerOptions with_spec(method::OptimizerOptions options) {
  options.spec = &method::kDistroMuon;
  return options;
}

class DistroMuon final : public optim::Optimizer {
 public:
  DistroMuon(const method::DistroOptions& distro, const method::OptimizerOptions& options,
             const tensor::Layout& layout)
      : Optimizer(with_spec(options), layout),
        momentum_(static_cast<float>(distro.muon_momentum)),
        scale_(distro.muon_scale) {}

  void update(const optim::TensorUpdate& tensor, const optim::OptimizerStep& step,
              ThreadPool& threads) override {
    const TensorSpec& known = spec(tensor.tensor);
    const double decay = known.decays() ? options().weight_decay : 0;
    const auto shrink = 1.0f - step.learning_rate * static_cast<float>(decay);
    if (known.is_hidden_matrix()) return update_matrix(known, tensor, step, shrink, threads);
    update_pieces(options(), step, tensor, threads, [&](float* params, int64_t at, int64_t count) {
      move_by_sign(params, tensor.gradient.data() + at, count, shrink, step.learning_rate);
    });
  }

 private:
  void update_matrix(const TensorSpec& known, const optim::TensorUpdate& tensor,
                     const optim::OptimizerStep& step, float shrink, ThreadPool& threads) {
    const int64_t columns = known.shape.back();
    const int64_t rows = known.count() / columns;
    const std::span<float> momentum = piece(tensor.tensor, 0);
    optim::for_pieces(known.count(), threads, [&](int64_t at, int64_t count) {
      add_to_mean(momentum.data() + at, tensor.gradient.data() + at, count, momentum_);
    });
    direction_.assign(momentum.begin(), momentum.end());
    scale_to_one(direction_);
    newton_schulz_.orthogonalise(direction_, rows, columns, threads);
    const double size = scale_ * std::sqrt(static_cast<double>(std::max(rows, columns)));
    const auto rate = static_cast<float>(step.learning_rate * size);
    update_pieces(options(), step, tensor, threads, [&](float* params, int64_t at, int64_t count) {
      optim::step_along(params, direction_.data() + at, count, shrink, rate);
    });
  }

  float momentum_;
  double scale_;
  std::vector<float> direction_;
  optim::NewtonSchulz newton_schulz_;
};

}  // namespace

std::unique_ptr<optim::Optimizer> make_distro_muon(const method::DistroOptions& options,
                                                   const method::OptimizerOptions& optim,
                                                   const tensor::Layout& layout) {
  return std::make_unique<DistroMuon>(options, optim, layout);
}

}  // namespace thinwire::sync
