#include "thinwire/optim/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/natural_galore/natural_galore_spec.h"
#include "thinwire/optimizers/natural_galore/natural_gradient.h"

namespace thinwire::optim {
namespace {

using method::History;
using method::LowRankShape;
using method::NaturalGaloreOptions;

const NaturalGaloreOptions& section(const method::OptimizerOptions& options) {
  return options.section<NaturalGaloreOptions>("natural_galore");
}

class NaturalGalore final : public LowRankOptimizer {
 public:
  NaturalGalore(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : LowRankOptimizer(options, layout, section(options).low_rank, section(options).moments,
                         section(options).sides),
        natural_(section(options)) {}

 private:
  // Pieces in the order of OptimizerSpec::state.
  StateValues m(size_t tensor) { return piece(tensor, 0); }
  StateValues v(size_t tensor) { return piece(tensor, 1); }
  GradientHistory history(size_t tensor) {
    return {piece(tensor, 2), piece(tensor, 3), natural_.history};
  }
  BasisPieces basis_pieces(size_t tensor, const LowRankShape& shape) override {
    constexpr size_t kFirst = 4;
    BasisPieces pieces;
    if (shape.projects_rows()) pieces.left = piece(tensor, kFirst);
    if (shape.projects_columns()) pieces.right = piece(tensor, pieces.left ? kFirst + 1 : kFirst);
    return pieces;
  }

  void update_matrix(const TensorUpdate& tensor, const LowRankShape& shape,
                     const OptimizerStep& step, ThreadPool& threads) override {
    const size_t index = tensor.tensor;
    const Bases held = take_core(tensor, shape, step, threads);
    const std::span<float> gradient = core(shape);
    GradientHistory past = history(index);
    const auto place = static_cast<int64_t>(step.number % static_cast<uint64_t>(natural_.history));
    past.put(place, gradient, threads);
    const double damping = damping_of(past);
    if (damping > 0) past.natural_gradient(place, damping, gradient, threads);
    adamw_direction(options(), step, gradient, m(index), v(index), threads);
    move_in_subspace(tensor, shape, held, step, natural_.scale, threads);
  }

  // Moments and history.
  void change_bases(size_t index, const LowRankShape& shape, const Bases& before, const Bases& now,
                    uint64_t step, ThreadPool& threads) override {
    LowRankOptimizer::change_bases(index, shape, before, now, step, threads);
    GradientHistory past = history(index);
    if (natural_.at_refresh == History::kClear) past.clear();
    if (natural_.at_refresh != History::kRotate) return;
    for (int64_t place = 0; place < natural_.history; ++place) {
      subspace().rotate(shape, before, now, false, past.at(place), threads);
    }
    past.renew_products(threads);
  }

  double damping_of(const GradientHistory& past) const {
    if (natural_.damping_is == method::Damping::kAbsolute) return natural_.damping;
    return natural_.damping * past.mean_square();
  }

  NaturalGaloreOptions natural_;
};

std::unique_ptr<Optimizer> make_natural_galore(const method::OptimizerOptions& options,
                                               const tensor::Layout& layout) {
  return std::make_unique<NaturalGalore>(options, layout);
}

}  // namespace

// Natural GaLore's arithmetic (Das 2024).

// Like GaLore, but Adam takes the natural gradient of the core R
// (optimizers/natural_galore/natural_gradient.h). The Fisher matrix is that of the last
// natural_galore.history cores:
//   p = p (1 - lr wd) - lr * scale * P Adam((lambda I + R^ R^T)^-1 R)
// With two sides the core is P^T G Q and the step is P Adam(...) Q^T.
const OptimizerEntry kNaturalGalore = {"natural_galore", make_natural_galore};

}  // namespace thinwire::optim
