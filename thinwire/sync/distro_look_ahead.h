// The look-ahead of overlapped DisTrO (docs/methods/distro.md): where this worker's own momentum
// would take the weights, while the shared update is still in flight. Purely local.
#pragma once

#include <span>
#include <vector>

#include "thinwire/codec/distro_tiles.h"
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

}  // namespace thinwire::sync
