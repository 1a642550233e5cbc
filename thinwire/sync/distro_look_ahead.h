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
  // Options and tiles outlive it.
  DistroLookAhead(const method::DistroOptions& options, const codec::DistroTiles& tiles,
                  const tensor::Layout& layout, ThreadPool& threads);

  // params = params - lr * sign(inverse transform of the momentum), the momentum as
  // distro_encoder.h lays it out; sign(0) = 0.
  void step(std::span<const float> momentum, float lr, tensor::Arena& params);
  // Takes the step back to the bit; nothing where none was taken.
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
  std::vector<uint16_t> slots_;        // all of the largest tile
  std::vector<Workspace> workspaces_;  // a thread
};

}  // namespace thinwire::sync
