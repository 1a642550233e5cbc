#include "thinwire/optim/galore.h"

#include "thinwire/method/galore.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/low_rank.h"

namespace thinwire::optim {
namespace {

using method::GaloreOptions;
using method::LowRankShape;

class Galore final : public LowRankOptimizer {
 public:
  Galore(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : LowRankOptimizer(options, layout, options.section<GaloreOptions>("galore").low_rank),
        galore_(options.section<GaloreOptions>("galore")) {}

 private:
  void update_matrix(const TensorUpdate& tensor, const LowRankShape& shape,
                     const OptimizerStep& step, ThreadPool& threads) override {
    const std::span<float> m = piece(tensor.tensor, 0);
    const std::span<float> v = piece(tensor.tensor, 1);
    const std::span<float> basis = piece(tensor.tensor, 2);
    const Bases bases = shape.projects_rows() ? Bases{basis, {}} : Bases{{}, basis};
    const Bases before = refresh(tensor, shape, bases, step, threads);
    if (galore_.moments == method::Moments::kRotate && before.present()) {
      subspace().rotate(shape, before, bases, false, m, threads);
      subspace().rotate(shape, before, bases, true, v, threads);
    }
    subspace().project(shape, bases, tensor.gradient, step.gradient_scale, core(shape), threads);
    adamw_direction(options(), step, core(shape), m, v, threads);
    subspace().lift(shape, bases, core(shape), full(shape), threads);
    move(tensor, step, galore_.scale, threads);
  }

  GaloreOptions galore_;
};

}  // namespace

std::unique_ptr<Optimizer> make_galore(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout) {
  return std::make_unique<Galore>(options, layout);
}

}  // namespace thinwire::optim
