#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/galore.h"
#include "thinwire/optim/muon.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {
namespace {

constexpr std::array kOptimizers = {
    OptimizerEntry{"adamw", make_adamw},
    OptimizerEntry{"galore", make_galore},
    OptimizerEntry{"muon", make_muon},
};

}  // namespace

std::span<const OptimizerEntry> all_optimizers() { return kOptimizers; }

std::unique_ptr<Optimizer> make_optimizer(const method::OptimizerOptions& options,
                                          const tensor::Layout& layout) {
  for (const OptimizerEntry& entry : kOptimizers) {
    if (entry.name == options.spec->name) return entry.make(options, layout);
  }
  throw Error(fmt::format("the optimizer '{}' has facts but no arithmetic", options.spec->name));
}

}  // namespace thinwire::optim
