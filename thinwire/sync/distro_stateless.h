// The stateless client of DisTrO (docs/methods/distro.md): it keeps nothing between rounds, takes
// local steps from the shared weights, and sends of the local delta that they add up to.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/method/distro.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

class DistroStateless {
 public:
  // Options, params, gradients and threads outlive the client.
  DistroStateless(const method::DistroOptions& options, method::OptimizerOptions optim,
                  tensor::Arena& params, const tensor::Arena& gradients, ThreadPool& threads);

  // Called once params, the shared weights, and state() are restored: within a round the params
  // become the local weights; between two rounds the delta of the last is dropped.
  void restored(bool within_round);
  // One local step with the gradients times `scale`. The params follow unless the round closes;
  // then they are the shared weights, to which the round's payloads can be applied.
  void step(const Round& round, float scale);
  // The local weights less the shared ones, summed on its own: not rounded to the weights' digits.
  const tensor::Arena& local_delta() const { return local_delta_; }
  // The params, as they are now, become the shared weights.
  void share();
  // Drops the local delta of the round before.
  void begin_round();

  // The shared weights between two synchronisations; null where every step synchronises.
  tensor::Arena* shared() { return shared_ ? &*shared_ : nullptr; }
  // The state within a round; nothing where every step synchronises.
  std::vector<optim::OptimizerState> state();

 private:
  void move(const Round& round, float scale);

  const method::DistroOptions& options_;
  tensor::Arena& params_;
  const tensor::Arena& gradients_;
  ThreadPool& threads_;
  tensor::Arena local_delta_;
  std::optional<tensor::Arena> shared_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace thinwire::sync
