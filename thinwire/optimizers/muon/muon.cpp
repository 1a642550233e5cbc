#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/muon/muon_spec.h"
#include "thinwire/optimizers/muon/newton_schulz.h"
#include "thinwire/tensor/kernels/launch.h"
#include "thinwire/tensor/products/device_products.h"

namespace thinwire::optim {
namespace {

constexpr double kScale = 0.2;

THINWIRE_CLONES void look_ahead(float* __restrict momentum, const float* __restrict gradient,
                                float* __restrict direction, int64_t count, tensor::MuonRule rule) {
  for (int64_t i = 0; i < count; ++i) {
    tensor::look_ahead(rule, gradient[i], momentum[i], direction[i]);
  }
}

class Muon final : public Optimizer {
 public:
  Muon(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : Optimizer(options, layout), muon_(options.section<method::MuonOptions>("muon")) {
    for (const TensorSpec& known : layout.specs()) {
      if (!known.is_hidden_matrix()) continue;
      largest_ = std::max(largest_, static_cast<size_t>(known.count()));
    }
  }

  void update(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) override {
    const TensorSpec& known = spec(tensor.tensor);
    if (known.is_hidden_matrix()) {
      update_matrix(known, tensor, step, threads);
    } else {
      adamw_update(options(), known.decays(), tensor, piece(tensor, 0), piece(tensor, 1), step,
                   threads);
    }
  }

 protected:
  // The products are the device's own, so only where no other worker takes the same steps.
  bool updates_on_device() const override { return !options().replicated; }
  void update_on_device(const DeviceUpdate& tensor, const OptimizerStep& step,
                        ThreadPool& threads) override {
    const TensorSpec& known = spec(tensor.tensor);
    if (known.is_hidden_matrix()) return update_matrix_on_device(known, tensor, step, threads);
    adamw_update_on_device(options(), known, tensor, device_piece(tensor.tensor, 0, step),
                           device_piece(tensor.tensor, 1, step), step, threads);
  }

 private:
  static int64_t columns_of(const TensorSpec& known) { return known.shape.back(); }
  static int64_t rows_of(const TensorSpec& known) { return known.count() / columns_of(known); }

  tensor::MuonRule rule_of(const OptimizerStep& step) const {
    return {static_cast<float>(muon_.momentum), step.gradient_scale};
  }

  // p = p shrink - rate direction
  struct Move {
    float shrink, rate;
  };
  Move move_of(const TensorSpec& known, const OptimizerStep& step) const {
    const double ratio = muon_.lr > 0 ? muon_.lr / options().lr : 1;
    const double rate = step.learning_rate * ratio;
    const int64_t longest = std::max(rows_of(known), columns_of(known));
    const double scale = kScale * std::sqrt(static_cast<double>(longest));
    return {static_cast<float>(1 - rate * options().weight_decay),
            static_cast<float>(rate * scale)};
  }

  void update_matrix(const TensorSpec& known, const TensorUpdate& tensor, const OptimizerStep& step,
                     ThreadPool& threads) {
    direction_.resize(std::max(direction_.size(), tensor.gradient.size()));
    const std::span<float> direction = std::span(direction_).first(tensor.gradient.size());
    const StateValues momentum = piece(tensor.tensor, 0);
    for_pieces(known.count(), threads, [&](int64_t at, int64_t count) {
      StatePart part(momentum, at, count);
      look_ahead(part.values(), tensor.gradient.data() + at, direction.data() + at, count,
                 rule_of(step));
      part.keep(step.number);
    });
    newton_schulz_.orthogonalise(direction, rows_of(known), columns_of(known), threads);
    const Move move = move_of(known, step);
    update_pieces(options(), step, tensor, threads, [&](float* params, int64_t at, int64_t count) {
      step_along(params, direction.data() + at, count, move.shrink, move.rate);
    });
  }

  void look_ahead_on_device(const TensorSpec& known, const DeviceUpdate& tensor,
                            const OptimizerStep& step, float* direction, ThreadPool& threads) {
    const DevicePiece momentum = device_piece(tensor.tensor, 0, step);
    if (momentum.exact != nullptr) {
      const tensor::LookAhead look = {rule_of(step), known.count(), tensor.gradient, momentum.exact,
                                      direction};
      return tensor::launch(tensor.device, threads, look, look.rows());
    }
    const tensor::ChangeCoded<tensor::LookAheadValue> look = {
        {rule_of(step), tensor.gradient, direction},
        known.count(),
        {momentum.coded},
        tensor.failed};
    tensor::launch(tensor.device, threads, look, look.rows());
  }

  void update_matrix_on_device(const TensorSpec& known, const DeviceUpdate& tensor,
                               const OptimizerStep& step, ThreadPool& threads) {
    if (!device_direction_) device_direction_.emplace(tensor.device, largest_);
    float* const direction = device_direction_->device();
    look_ahead_on_device(known, tensor, step, direction, threads);
    tensor::iterate_quintic(tensor.device, {kNewtonSchulzA, kNewtonSchulzB, kNewtonSchulzC},
                            kNewtonSchulzSteps, direction, rows_of(known), columns_of(known));
    const Move move = move_of(known, step);
    const tensor::StepAlong along = {known.count(), move.shrink, move.rate, direction,
                                     tensor.params};
    tensor::launch(tensor.device, threads, along, along.rows());
  }

  method::MuonOptions muon_;
  size_t largest_ = 0;                                            // values of a matrix
  std::vector<float> direction_;                                  // of the largest matrix so far
  std::optional<tensor::DeviceScratch<float>> device_direction_;  // of the largest matrix
  NewtonSchulz newton_schulz_;
};

std::unique_ptr<Optimizer> make_muon(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout) {
  return std::make_unique<Muon>(options, layout);
}

}  // namespace

// Muon: orthogonalised momentum for the matrices of the transformer blocks (Jordan et al. 2024),
// with the scale that makes its steps as large as AdamW's (Liu et al. 2025, "Muon is scalable for
// LLM training", arXiv 2502.16982, equation 4); AdamW for the embedding, the head and the norms.
// The inner optimizer of MuLoCo (Therien et al. 2025, arXiv 2505.23725).

// For tensors of role kMatrix, rows x columns, mu = muon.momentum, lr_m = lr * muon.lr / optim.lr:
//   m = mu m + g      o = NewtonSchulz(g + mu m)
//   p = p (1 - lr_m wd) - lr_m * 0.2 sqrt(max(rows, columns)) o
const OptimizerEntry kMuon = {"muon", make_muon};

}  // namespace thinwire::optim
