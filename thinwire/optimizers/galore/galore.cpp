#include "thinwire/optim/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::optim {
namespace {

using method::GaloreOptions;
using method::LowRankShape;

class Galore final : public LowRankOptimizer {
 public:
  Galore(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : LowRankOptimizer(options, layout, options.section<GaloreOptions>("galore").low_rank,
                         options.section<GaloreOptions>("galore").moments),
        galore_(options.section<GaloreOptions>("galore")) {}

 private:
  void update_matrix(const TensorUpdate& tensor, const LowRankShape& shape,
                     const OptimizerStep& step, ThreadPool& threads) override {
    const Bases bases = take_core(tensor, shape, step, threads);
    adamw_direction(options(), step, core(shape), piece(tensor.tensor, 0), piece(tensor.tensor, 1),
                    threads);
    move_in_subspace(tensor, shape, bases, step, galore_.scale, threads);
  }

  GaloreOptions galore_;
};

std::unique_ptr<Optimizer> make_galore(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout) {
  return std::make_unique<Galore>(options, layout);
}

}  // namespace

// GaLore's arithmetic (Zhao et al. 2024, arXiv 2403.03507, algorithm 2).

// For a matrix of the blocks with rows <= columns (otherwise R = G Q and the update Adam(R) Q^T):
//   R = P^T G      p = p (1 - lr wd) - lr * galore.scale * P Adam(R)
// P is renewed every galore.refresh steps (optim/subspace.h). Adam is AdamW without decay.
const OptimizerEntry kGalore = {"galore", make_galore};

}  // namespace thinwire::optim
