#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optim/optimizers.h"

namespace thinwire::optim {
namespace {

// clang-format off
constexpr std::array kOptimizers = {
    OptimizerEntry{"adamw", make_adamw},
    OptimizerEntry{"apollo", make_apollo},
    OptimizerEntry{"fira", make_fira},
    OptimizerEntry{"galore", make_galore},
    OptimizerEntry{"muon", make_muon},
    OptimizerEntry{"natural_galore", make_natural_galore},
    OptimizerEntry{"scale", make_scale},
};
// clang-format on

}  // namespace

std::span<const OptimizerEntry> all_optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(const method::OptimizerOptions& options,
                                          const tensor::Layout& layout) {
  for (const OptimizerEntry& entry : kOptimizers) {
    if (entry.name == options.spec->name) return entry.make(options, layout);
  }
  throw Error(fmt::format("the optimizer '{}' has a spec but no arithmetic", options.spec->name));
}

}  // namespace thinwire::optim
