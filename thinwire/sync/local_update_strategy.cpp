#include "thinwire/sync/local_update_strategy.h"

namespace thinwire::sync {

LocalUpdateStrategy::LocalUpdateStrategy(const Worker& worker)
    : worker_(worker),
      cluster_(worker.spec.clusters, worker.spec.aggregate, worker.communicator),
      inner_(worker, cluster_),
      shared_(worker.params.layout(), WeightFormat::kF32, worker.params.offload()) {}

// A worker that becomes inactive comes back as a new one would, and so does a joiner: from the
// shared weights, with no state of its own.
bool LocalUpdateStrategy::before_step(const Round& round) {
  const bool begins = round.step > 0 && own(round).since == round.step;
  if (begins) {
    inner_.forget();
    forget();
    worker_.params.assign(shared_);
  }
  if (own(round).inactive()) return true;
  return inner_.before_step(round) || begins;
}

Result<StepReport> LocalUpdateStrategy::inner_step(const Round& round) {
  if (own(round).inactive()) return StepReport{.synchronised = false};
  return inner_.after_step(round);
}

}  // namespace thinwire::sync
