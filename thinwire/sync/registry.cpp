#include "thinwire/method/registry.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/sync/allreduce.h"
#include "thinwire/sync/diloco.h"
#include "thinwire/sync/distro.h"
#include "thinwire/sync/sparse.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {
namespace {

constexpr StrategyEntry kStrategies[] = {
    {"allreduce", make_allreduce},
    {"distro", make_distro},
    {"diloco", make_diloco},
    {"sparse", make_sparse},
};

}  // namespace

std::span<const StrategyEntry> all_strategies() { return kStrategies; }

std::unique_ptr<Strategy> make_strategy(const Worker& worker) {
  const method::Method& method = method::find_method(worker.recipe.sync.method);
  for (const StrategyEntry& entry : kStrategies) {
    if (entry.name == method.algorithm) return entry.make(worker);
  }
  throw Error(
      fmt::format("the synchronisation method '{}' has facts but no strategy", method.name));
}

}  // namespace thinwire::sync
