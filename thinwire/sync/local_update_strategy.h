// Base class of the local-update methods, whose workers train their own weights for several steps
// between exchanges (DiLoCo and its presets, SparseLoCo): the inner training, the weights that all
// replicas agree on, and workers that leave and join.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/sync/cluster.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

// How a worker trains its own weights between outer steps: at every step it uses a strategy inside
// its cluster; for a worker without a cluster this is simply a step of the optimizer.

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

// A derived class exchanges in after_step, which begins with inner_step. Threading, and the
// lifetime of what the worker refers to: as in Strategy.
class LocalUpdateStrategy : public Strategy {
 public:
  // Restores the inner training; a derived class adds what it has in flight.
  void restored(const Resumption& from) override { inner_.restored(from); }
  bool before_step(const Round& round) final;
  tensor::GradientForm gradient_form(const Round& round, size_t tensor) final {
    return inner_.gradient_form(round, tensor);
  }
  void project_gradient(const Round& round, size_t tensor, std::span<const float> whole,
                        std::span<float> projected) final {
    inner_.project_gradient(round, tensor, whole, projected);
  }
  void take_gradient(const Round& round, size_t tensor, std::span<const float> gradient) final {
    inner_.take_gradient(round, tensor, gradient);
  }
  void gradients_ready(const Round& round, int group) final {
    inner_.gradients_ready(round, group);
  }
  // The inner training's; a derived class adds its own.
  std::vector<StateTensor> state() override { return inner_.state(); }
  std::vector<StateBytes> in_flight() final { return inner_.in_flight(); }
  tensor::Arena* shared() final { return &shared_; }

 protected:
  explicit LocalUpdateStrategy(const Worker& worker);

  // Clears what the derived class keeps for this worker alone. What is in flight is kept, because
  // the others wait for it.
  virtual void forget() = 0;

  RoundMember own(const Round& round) const { return round.own(worker_.communicator.rank()); }
  // A step of the worker's own weights; none if it is inactive.
  Result<StepReport> inner_step(const Round& round);

  Worker worker_;
  Cluster cluster_;
  InnerTraining inner_;
  tensor::Arena shared_;
};

}  // namespace thinwire::sync
