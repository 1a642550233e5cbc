// A run in miniature for tests of strategies: replicas on threads of their own over the local
// transport, fed with gradients that the test makes up.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "thinwire/sync/strategy.h"
#include "thinwire/transport/local.h"

namespace thinwire::sync {

class Replicas {
 public:
  // Fills worker w's gradient of the step.
  using Gradients = std::function<void(int worker, tensor::Arena& gradients)>;

  // Puts something between a replica and its transport, e.g. to lose payloads.
  using WrapPeers =
      std::function<std::unique_ptr<transport::Peers>(std::unique_ptr<transport::Peers>)>;

  Replicas(config::Recipe recipe, std::vector<TensorSpec> specs, int members,
           const WrapPeers& wrap = {})
      : recipe_(std::move(recipe)),
        layout_(std::move(specs)),
        peers_(transport::make_local_peers(members)) {
    for (auto& peers : peers_) {
      if (wrap) peers = wrap(std::move(peers));
    }
    for (int member = 0; member < members; ++member) {
      replicas_.push_back(std::make_unique<Replica>(recipe_, layout_, *peers_[size_t(member)]));
    }
  }

  int members() const { return static_cast<int>(replicas_.size()); }
  const tensor::Layout& layout() const { return layout_; }
  tensor::Arena& params(int member) { return replicas_[size_t(member)]->params; }
  Strategy& strategy(int member) { return *replicas_[size_t(member)]->strategy; }
  transport::Peers& peers(int member) { return *peers_[size_t(member)]; }

  // One step of everyone; weights empty: equal. Returns the reports in member order.
  std::vector<Result<StepReport>> step(uint64_t number, float lr, const Gradients& gradients,
                                       std::vector<float> weights = {}) {
    Round round;
    round.run = 1;
    round.number = number;
    round.learning_rate = lr;
    for (int member = 0; member < members(); ++member) {
      const float weight = weights.empty() ? 1.0f / float(members()) : weights[size_t(member)];
      round.roster.push_back({member, {}, weight});
    }
    std::vector<Result<StepReport>> reports(replicas_.size());
    std::vector<std::thread> threads;
    for (int member = 0; member < members(); ++member) {
      threads.emplace_back([&, member] {
        Replica& replica = *replicas_[size_t(member)];
        replica.strategy->before_step(round);
        gradients(member, replica.gradients);
        reports[size_t(member)] = replica.strategy->after_step(round);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return reports;
  }

 private:
  struct Replica {
    Replica(const config::Recipe& recipe, const tensor::Layout& layout, transport::Peers& peers)
        : threads(static_cast<int>(recipe.train.threads)),
          slots(nullptr, 1),
          params(layout),
          gradients(layout),
          strategy(make_strategy({recipe, params, gradients, threads, slots, peers})) {}

    ThreadPool threads;
    SlotHold slots;
    tensor::Arena params;
    tensor::Arena gradients;
    std::unique_ptr<Strategy> strategy;
  };

  config::Recipe recipe_;
  tensor::Layout layout_;
  std::vector<std::unique_ptr<transport::Peers>> peers_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace thinwire::sync
