#include "thinwire/sync/inner_training.h"

#include <utility>

namespace thinwire::sync {
namespace {

std::unique_ptr<Strategy> make_inner(const Worker& worker, Cluster& cluster) {
  Worker inside{worker.params,  worker.gradients, worker.threads,
                worker.permits, cluster.inside(), worker.spec};
  inside.spec.aggregate = {};  // the members of a cluster trust each other
  return make_strategy(inside, worker.spec.within);
}

}  // namespace

InnerTraining::InnerTraining(const Worker& worker, Cluster& cluster)
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

}  // namespace thinwire::sync
