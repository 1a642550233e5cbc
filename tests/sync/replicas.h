// A miniature run for tests of strategies: replicas on their own threads over the local transport,
// fed with gradients that the test makes up.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// Normal values, others for every worker and step.
inline void random_gradients(int worker, uint64_t step, tensor::Arena& gradients) {
  Rng rng(uint64_t(worker) + 1, step);
  for (size_t t = 0; t < gradients.layout().size(); ++t) {
    for (float& value : gradients.tensor(t)) value = float(rng.normal());
  }
}

class Replicas {
 public:
  // Fills worker w's gradient of the step.
  using Gradients = std::function<void(int worker, tensor::Arena& gradients)>;

  // Puts something between a replica and its transport, e.g. to lose payloads.
  using WrapCommunicator = std::function<std::unique_ptr<transport::Communicator>(
      std::unique_ptr<transport::Communicator>)>;

  Replicas(config::Recipe recipe, std::vector<TensorSpec> specs, int members,
           const WrapCommunicator& wrap = {})
      : recipe_(std::move(recipe)),
        rounds_(method::rounds_of(recipe_)),
        layout_(std::move(specs)),
        communicators_(transport::make_local_communicators(members)) {
    for (auto& communicator : communicators_) {
      if (wrap) communicator = wrap(std::move(communicator));
    }
    for (int member = 0; member < members; ++member) {
      replicas_.push_back(
          std::make_unique<Replica>(recipe_, layout_, *communicators_[size_t(member)]));
    }
  }

  // Sums in flight read the strategies' memory.
  ~Replicas() {
    for (auto& communicator : communicators_) communicator->leave();
  }
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  int members() const { return static_cast<int>(replicas_.size()); }
  const tensor::Layout& layout() const { return layout_; }
  // What the model computes with, and what the replicas agree on.
  tensor::Arena& params(int member) { return replicas_[size_t(member)]->params; }
  tensor::Arena& gradients(int member) { return replicas_[size_t(member)]->gradients; }
  tensor::Arena& shared(int member) {
    tensor::Arena* const shared = strategy(member).shared();
    return shared == nullptr ? params(member) : *shared;
  }
  Strategy& strategy(int member) { return *replicas_[size_t(member)]->strategy; }
  transport::Communicator& communicator(int member) { return *communicators_[size_t(member)]; }

  // Step `step` of everyone, the next one; weights empty: equal, 0: inactive. Returns the reports
  // in member order.
  std::vector<Result<StepReport>> step(uint64_t step, float lr, const Gradients& gradients,
                                       std::vector<float> weights = {}) {
    const auto at = static_cast<int64_t>(step);
    Round round;
    round.run = 1;
    round.number = static_cast<uint64_t>(rounds_.number(at));
    round.step = step;
    round.learning_rate = lr;
    round_rate_ = rounds_.first_step(at) == at ? lr : round_rate_ + lr;
    round.round_rate = float(round_rate_);
    round.closes = rounds_.closes(at);
    round.last = at + 1 == rounds_.steps;
    since_.resize(replicas_.size(), {true, 0});
    for (int member = 0; member < members(); ++member) {
      const float weight = weights.empty() ? 1.0f / float(members()) : weights[size_t(member)];
      auto& [there, since] = since_[size_t(member)];
      if (step > 0 && there != (weight > 0)) since = step;
      there = weight > 0;
      round.roster.push_back({member, {}, weight, since});
    }
    std::vector<Result<StepReport>> reports(replicas_.size());
    std::vector<std::thread> threads;
    for (int member = 0; member < members(); ++member) {
      threads.emplace_back([&, member] {
        Replica& replica = *replicas_[size_t(member)];
        if (step == 0) {
          share_params(replica.params, *replica.strategy);
          replica.strategy->restored({});
        }
        replica.strategy->before_step(round);
        gradients(member, replica.gradients);
        if (!round.member(member).inactive()) hand_over(replica, round);
        reports[size_t(member)] = replica.strategy->after_step(round);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return reports;
  }

 private:
  struct Replica {
    Replica(const config::Recipe& recipe, const tensor::Layout& layout,
            transport::Communicator& communicator)
        : threads(static_cast<int>(recipe.train.threads)),
          permits(nullptr, 1),
          params(layout),
          gradient_layout(
              method::gradient_tensors(method::optimizer_options(recipe), layout.specs())),
          gradients(gradient_layout),
          strategy(make_strategy(
              {params, recipe.train.update == config::UpdateTime::kLayer ? no_gradients : gradients,
               threads, permits, communicator, method::sync_spec(recipe)})) {}

    ThreadPool threads;
    PermitHold permits;
    tensor::Arena params;
    const tensor::Layout gradient_layout;  // as the optimizer takes them
    tensor::Arena gradients;
    tensor::Layout no_tensors{{}};
    tensor::Arena no_gradients{no_tensors};
    std::unique_ptr<Strategy> strategy;
  };

  // As a backward pass does.
  void hand_over(Replica& replica, const Round& round) const {
    const tensor::Arena& gradients = replica.gradients;
    for (const GradientGroup& group : gradient_groups(gradients.layout().specs())) {
      for (const size_t tensor : group.tensors) {
        if (recipe_.train.update != config::UpdateTime::kLayer) break;
        hand_over(replica, round, tensor, gradients.tensor(tensor));
      }
      replica.strategy->gradients_ready(round, group.number);
    }
  }
  void hand_over(Replica& replica, const Round& round, size_t tensor,
                 std::span<const float> gradient) const {
    const auto formed = static_cast<size_t>(
        method::formed_elements(layout_.specs()[tensor], recipe_.model.vocab_slabs));
    for (size_t begin = 0; begin < gradient.size(); begin += formed) {
      const size_t count = std::min(formed, gradient.size() - begin);
      replica.strategy->take_gradient(round, tensor, gradient.subspan(begin, count));
    }
  }

  config::Recipe recipe_;
  schedule::Rounds rounds_;
  double round_rate_ = 0;
  std::vector<std::pair<bool, uint64_t>> since_;  // a member: whether it is there, from which step
  tensor::Layout layout_;
  std::vector<std::unique_ptr<transport::Communicator>> communicators_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace thinwire::sync
