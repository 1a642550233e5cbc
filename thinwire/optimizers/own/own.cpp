#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::optim {
namespace {

class Own final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  void update(const TensorUpdate&, const OptimizerStep&, ThreadPool&) override {}
};

std::unique_ptr<Optimizer> make_own(const method::OptimizerOptions& options,
                                    const tensor::Layout& layout) {
  return std::make_unique<Own>(options, layout);
}

}  // namespace

// The weights have been changed already.
const OptimizerEntry kOwn = {"own", make_own};

}  // namespace thinwire::optim
