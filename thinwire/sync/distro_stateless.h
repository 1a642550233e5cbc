// The client of DisTrO that keeps nothing between rounds (docs/methods/distro.md): it takes its
// local steps from the shared weights and offers the way it went.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/method/distro.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/arena.h"

namespace thinwire::sync {

class DistroStateless {
 public:
  // Options, params, gradients and threads outlive the client.
  DistroStateless(const method::DistroOptions& options, method::OptimizerOptions optim,
                  tensor::Arena& params, const tensor::Arena& gradients, ThreadPool& threads);

  // After params, the shared weights, and state() were restored: where a round is open, the params
  // become the local weights; else what is left of a closed one is dropped.
  void restored(bool within_round);
  // One local step with the gradients times `scale`. The params follow unless the round closes;
  // then they are the shared weights, to which the round's payloads can be applied.
  void step(const Round& round, float scale);
  // The local weights less the shared ones, not rounded to what the weights resolve.
  const tensor::Arena& way() const { return way_; }
  // The params, as they are now, become the shared weights.
  void share();

  // The shared weights between two synchronisations; null where every step synchronises.
  tensor::Arena* shared() { return shared_ ? &*shared_ : nullptr; }
  // What it holds within a round; nothing where every step synchronises.
  std::vector<optim::OptimizerState> state();

 private:
  void move(const Round& round, float scale);
  void begin_round();

  const method::DistroOptions& options_;
  tensor::Arena& params_;
  const tensor::Arena& gradients_;
  ThreadPool& threads_;
  tensor::Arena way_;
  std::optional<tensor::Arena> shared_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace thinwire::sync
