#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/muon/muon_spec.h"
#include "thinwire/optimizers/muon/newton_schulz.h"

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

class Muon final : public Optimizer {
 public:
  Muon(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : Optimizer(options, layout), muon_(options.section<method::MuonOptions>("muon")) {
    int64_t largest = 0;
    for (const TensorSpec& known : layout.specs()) {
      if (known.is_hidden_matrix()) largest = std::max(largest, known.count());
    }
    direction_.resize(static_cast<size_t>(largest));
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

 private:
  void update_matrix(const TensorSpec& known, const TensorUpdate& tensor, const OptimizerStep& step,
                     ThreadPool& threads) {
    const int64_t columns = known.shape.back();
    const int64_t rows = known.count() / columns;
    const std::span<float> direction = std::span(direction_).first(tensor.gradient.size());
    const StateValues momentum = piece(tensor.tensor, 0);
    const auto mu = static_cast<float>(muon_.momentum);
    for_pieces(known.count(), threads, [&](int64_t at, int64_t count) {
      StatePart part(momentum, at, count);
      look_ahead(part.values(), tensor.gradient.data() + at, direction.data() + at, count, mu,
                 step.gradient_scale);
      part.keep(step.number);
    });
    newton_schulz_.orthogonalise(direction, rows, columns, threads);
    const double ratio = muon_.lr > 0 ? muon_.lr / options().lr : 1;
    const double rate = step.learning_rate * ratio;
    const double scale = kScale * std::sqrt(static_cast<double>(std::max(rows, columns)));
    const auto shrink = static_cast<float>(1 - rate * options().weight_decay);
    update_pieces(options(), step, tensor, threads, [&](float* params, int64_t at, int64_t count) {
      step_along(params, direction.data() + at, count, shrink, static_cast<float>(rate * scale));
    });
  }

  method::MuonOptions muon_;
  std::vector<float> direction_;  // of the largest matrix
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
