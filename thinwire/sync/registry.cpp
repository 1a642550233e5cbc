#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/sync/allreduce.h"
#include "thinwire/sync/diloco.h"
#include "thinwire/sync/distro.h"
#include "thinwire/sync/local_sgd.h"
#include "thinwire/sync/sparse.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/sync/streaming.h"

namespace thinwire::sync {
namespace {

constexpr std::array<StrategyEntry, 6> kStrategies = {{
    {"allreduce", make_allreduce},
    {"distro", make_distro},
    {"local_sgd", make_local_sgd},
    {"diloco", make_diloco},
    {"streaming", make_streaming},
    {"sparse", make_sparse},
}};

}  // namespace

std::span<const StrategyEntry> all_strategies() { return kStrategies; }

std::unique_ptr<Strategy> make_strategy(const Worker& worker) {
  const std::string& name = worker.recipe.sync.method;
  for (const StrategyEntry& entry : kStrategies) {
    if (entry.name == name) return entry.make(worker);
  }
  throw Error(fmt::format("the synchronisation method '{}' has facts but no strategy", name));
}

}  // namespace thinwire::sync
