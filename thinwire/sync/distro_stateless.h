// The stateless client of DisTrO (docs/methods/distro.md): it keeps nothing between rounds, takes
// local steps from the shared weights, and sends the largest coefficients of the local delta, the
// sum of these steps.
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
  // Options, params, gradients and threads must outlive the client.
  DistroStateless(const method::DistroOptions& options, method::OptimizerOptions optim,
                  tensor::Arena& params, const tensor::Arena& gradients, ThreadPool& threads);

  // Called once params, which are the shared weights, and state() are restored: within a round the
  // params become the local weights; between two rounds the last round's delta is dropped.
  void restored(bool within_round);
  // One local step with the gradients times `scale`. It moves the params, unless the round closes:
  // then they become the shared weights, to which the round's payloads can be applied.
  void step(const Round& round, float scale);
  // The local weights minus the shared ones, accumulated separately, so that it is not rounded to
  // the precision of the weights.
  const tensor::Arena& local_delta() const { return local_delta_; }
  // Makes the current params the shared weights.
  void share();
  // Drops the local delta of the round before.
  void begin_round();

  // The shared weights between two synchronisations; null if every step synchronises.
  tensor::Arena* shared() { return shared_ ? &*shared_ : nullptr; }
  // The state within a round; empty if every step synchronises.
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
