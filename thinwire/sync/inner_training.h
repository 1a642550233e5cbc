// How a worker trains its own weights between outer steps: at every step it uses a strategy inside
// its cluster; for a worker without a cluster this is simply a step of the optimizer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/sync/cluster.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

// All rounds here are rounds of the whole run.
class InnerTraining {
 public:
  // The cluster must outlive it.
  InnerTraining(const Worker& worker, Cluster& cluster);

  void restored(const Resumption& from);
  bool before_step(const Round& round) { return strategy_->before_step(cluster_.inside(round)); }
  tensor::GradientForm gradient_form(const Round& round, size_t tensor) {
    return strategy_->gradient_form(cluster_.inside(round), tensor);
  }
  void project_gradient(const Round& round, size_t tensor, std::span<const float> whole,
                        std::span<float> projected) {
    strategy_->project_gradient(cluster_.inside(round), tensor, whole, projected);
  }
  void take_gradient(const Round& round, size_t tensor, std::span<const float> gradient) {
    strategy_->take_gradient(cluster_.inside(round), tensor, gradient);
  }
  void gradients_ready(const Round& round, int group) {
    strategy_->gradients_ready(cluster_.inside(round), group);
  }
  // The report's `synchronised` is false: the shared weights have not changed.
  Result<StepReport> after_step(const Round& round);
  // The worker's own weights and the strategy's state; all of it differs between clusters.
  std::vector<StateTensor> state();
  // Clears the strategy's state, as if the run began with the current weights.
  void forget() { strategy_->reset(); }
  std::vector<StateBytes> in_flight() { return strategy_->in_flight(); }

 private:
  tensor::Arena& params_;
  Cluster& cluster_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace thinwire::sync
