// The look-ahead of overlapped DisTrO (thinwire/methods/distro/distro.md): where this worker's own
// momentum would take the weights, while the shared update is still in flight. Purely local.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/distro/distro_tiles.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

class DistroLookAhead {
 public:
  // Options and tiles must outlive it.
  DistroLookAhead(const method::DistroOptions& options, const codec::DistroTiles& tiles,
                  const tensor::Layout& layout, ThreadPool& threads);

  // params = params - lr * sign(inverse transform of the momentum), with the momentum laid out as
  // in distro_encoder.h; sign(0) = 0.
  void step(std::span<const float> momentum, float lr, tensor::Arena& params);
  // Undoes the step exactly; does nothing if none was taken.
  void undo(tensor::Arena& params);

 private:
  struct Workspace {
    std::vector<float> coefficients;  // in the order of slots
    codec::FloatBuffer transform;
  };

  void step_tile(std::span<const float> momentum, float lr, size_t tensor, int64_t tile,
                 Workspace& workspace, tensor::Arena& params);

  const method::DistroOptions& options_;
  const codec::DistroTiles& tiles_;
  ThreadPool& threads_;
  tensor::Arena saved_;
  bool stepped_ = false;
  std::vector<uint16_t> slots_;        // all slots of the largest tile
  std::vector<Workspace> workspaces_;  // by thread
};

// The stateless client of DisTrO (thinwire/methods/distro/distro.md): it keeps nothing between
// rounds, takes local steps from the shared weights, and sends the largest coefficients of the
// local delta, the sum of these steps.
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
