// Base class of the local-update methods, whose workers train their own weights for several steps
// between exchanges (DiLoCo and its presets, SparseLoCo): the inner training, the weights that all
// replicas agree on, and workers that leave and join.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/base/wire.h"
#include "thinwire/method/within.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// A worker's position in clusters (method/within.h): the members with which it trains the same
// weights, and sums over all clusters, for which only the first member of each cluster uses the
// slow link and then broadcasts the result to the others.
class Cluster {
 public:
  // clusters: their number; 0: each worker is a cluster of its own. `communicator` must outlive it.
  // `aggregate`: how the contributions of all clusters become one.
  Cluster(int64_t clusters, const AggregateOptions& aggregate,
          transport::Communicator& communicator);

  // The communicator of this cluster's members; that of all members without clusters.
  transport::Communicator& inside() { return inside_ ? *inside_ : communicator_; }
  // The round of a training step, restricted to this cluster's members.
  Round inside(const Round& round) const;
  // The share of the round's rows of this cluster, or of a given one.
  float weight(const Round& round) const { return weight(round, own_); }
  float weight(const Round& round, int cluster) const;
  // The share of this cluster among the members that have been active since `step`; 0 if it has
  // none of them.
  float weight_since(const Round& round, uint64_t step) const {
    return weight_since(round, step, own_);
  }

  // The clusters with members that have been active since `step`, as ranks of across(), and their
  // shares.
  transport::Contributors contributors(const Round& round, uint64_t step) const;
  MemberShares shares(const Round& round, uint64_t step) const;

  // As in MemberSum, with one contribution per cluster: all its members make the same calls with
  // the same values. Keys of the inner strategy have fragment 0; these may have any.
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const MemberShares& shares, bool gathered = false);
  Result<bool> left_out(const transport::Key& key, double timeout_s);
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out, double timeout_s);
  void cancel(const transport::Key& key);

  // The communicator of the clusters' first workers, in which member i is cluster i; null for other
  // workers.
  transport::Communicator* across() { return across_; }
  // Copies the values of the cluster's first worker to all its workers.
  Result<void> broadcast(const transport::Key& key, std::span<float> values, double timeout_s);

 private:
  float weight_since(const Round& round, uint64_t step, int cluster) const;

  transport::Communicator& communicator_;
  method::Clusters clusters_;
  int own_ = 0;                                       // cluster
  std::unique_ptr<transport::Communicator> inside_;   // null: no clusters
  std::unique_ptr<transport::Communicator> leaders_;  // only on a leader
  transport::Communicator* across_ = nullptr;  // leaders_ or communicator_; null: not a leader
  std::optional<MemberSum> sum_;               // over across_
};

// How a worker trains its own weights between outer steps: at every step it uses a strategy inside
// its cluster; for a worker without a cluster this is simply a step of the optimizer.

// All rounds here are rounds of the whole run.
class InnerTraining {
 public:
  // The cluster must outlive it.
  InnerTraining(const WorkerParts& worker, Cluster& cluster);

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
  void collect_state() { strategy_->collect_state(); }
  // Clears the strategy's state, as if the run began with the current weights.
  void forget() { strategy_->reset(); }
  std::vector<StatePayload> in_flight() { return strategy_->in_flight(); }

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
  void collect_state() final { inner_.collect_state(); }
  std::vector<StatePayload> in_flight() final { return inner_.in_flight(); }
  tensor::Arena* shared() final { return &shared_; }

 protected:
  explicit LocalUpdateStrategy(const WorkerParts& worker);

  // Clears what the derived class keeps for this worker alone. What is in flight is kept, because
  // the others wait for it.
  virtual void forget() = 0;

  RoundMember own(const Round& round) const { return round.own(worker_.communicator.rank()); }
  // A step of the worker's own weights; none if it is inactive.
  Result<StepReport> inner_step(const Round& round);

  WorkerParts worker_;
  Cluster cluster_;
  InnerTraining inner_;
  tensor::Arena shared_;
};

}  // namespace thinwire::sync
