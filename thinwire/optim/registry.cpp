#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::optim {
namespace {

constexpr std::array kOptimizers = {
#define THINWIRE_OPTIMIZER(Name) &k##Name,
#include "thinwire/optimizers/optimizers.inc"
#undef THINWIRE_OPTIMIZER
};

}  // namespace

std::span<const OptimizerEntry* const> all_optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(const method::OptimizerOptions& options,
                                          const tensor::Layout& layout) {
  if (options.spec == &method::kOwn) return kOwn.make(options, layout);
  for (const OptimizerEntry* entry : kOptimizers) {
    if (entry->name == options.spec->name) return entry->make(options, layout);
  }
  throw Error(fmt::format("the optimizer '{}' has a spec but no arithmetic", options.spec->name));
}

}  // namespace thinwire::optim
