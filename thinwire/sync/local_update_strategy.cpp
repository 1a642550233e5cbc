#include "thinwire/sync/local_update_strategy.h"

#include <utility>

namespace thinwire::sync {
namespace {

std::unique_ptr<Strategy> make_inner(const WorkerParts& worker, Cluster& cluster) {
  WorkerParts inside{worker.params,    worker.gradients, worker.threads,        worker.permits,
                     cluster.inside(), worker.spec,      worker.share_optimizer};
  inside.spec.aggregate = {};  // the members of a cluster trust each other
  return make_strategy(inside, worker.spec.within);
}

}  // namespace

InnerTraining::InnerTraining(const WorkerParts& worker, Cluster& cluster)
    : params_(worker.params), cluster_(cluster), strategy_(make_inner(worker, cluster)) {}

void InnerTraining::restored(const Resumption& from) {
  const auto inside = [&](uint64_t step) { return cluster_.inside(from.round_at(step)); };
  strategy_->restored({from.next_step, inside, from.ended_at, from.from_snapshot});
}

Result<StepReport> InnerTraining::after_step(const Round& round) {
  Result<StepReport> report = strategy_->after_step(cluster_.inside(round));
  if (report) report->synchronised = false;
  return report;
}

std::vector<StateTensor> InnerTraining::state() {
  std::vector<StateTensor> state = {{"local.params", params_.all(), Agreement::kLocal}};
  for (StateTensor part : strategy_->state()) {
    part.agreement = Agreement::kLocal;
    state.push_back(std::move(part));
  }
  return state;
}

LocalUpdateStrategy::LocalUpdateStrategy(const WorkerParts& worker)
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
