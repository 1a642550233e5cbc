#include "thinwire/method/optimizers/sections.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/low_rank.h"
#include "thinwire/optim/optimizers.h"

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

}  // namespace

std::unique_ptr<Optimizer> make_galore(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout) {
  return std::make_unique<Galore>(options, layout);
}

}  // namespace thinwire::optim
