#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/diloco.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/sparseloco.h"
#include "thinwire/sync/allreduce.h"
#include "thinwire/sync/diloco.h"
#include "thinwire/sync/distro.h"
#include "thinwire/sync/sparseloco.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {
namespace {

template <typename Options, std::unique_ptr<Strategy> (*kMake)(const Worker&, const Options&)>
std::unique_ptr<Strategy> make(const Worker& worker, const config::Section& options) {
  return kMake(worker, dynamic_cast<const Options&>(options));
}

constexpr StrategyEntry kStrategies[] = {
    {"allreduce", make<method::AllReduceOptions, make_allreduce>},
    {"distro", make<method::DistroOptions, make_distro>},
    {"diloco", make<method::DilocoOptions, make_diloco>},
    {"sparseloco", make<method::SparseLocoOptions, make_sparseloco>},
};

}  // namespace

std::span<const StrategyEntry> all_strategies() { return kStrategies; }

std::unique_ptr<Strategy> make_strategy(const Worker& worker) {
  Worker with_state = worker;
  with_state.spec.optim.offload = worker.params.offload();  // state is where the weights are
  return make_strategy(with_state, worker.spec.method);
}

std::unique_ptr<Strategy> make_strategy(const Worker& worker, const method::AlgorithmSpec& spec) {
  for (const StrategyEntry& entry : kStrategies) {
    if (entry.name == spec.name) return entry.make(worker, spec.options);
  }
  throw Error(fmt::format("the algorithm '{}' has a spec but no strategy", spec.name));
}

}  // namespace thinwire::sync
