// The receiving half of DisTrO: from a round's committed payloads to updated parameters
// (docs/methods/distro.md). Everything here must have the same bits on every replica, whatever the
// number of threads and the instruction set.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/slot_means.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/distro_device.h"
#include "thinwire/sync/distro_tiles.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

class DistroApplier {
 public:
  // Options, tiles and layout outlive the applier.
  DistroApplier(const method::DistroOptions& options, const config::OptimSection& optim,
                const DistroTiles& tiles, const tensor::Layout& layout, ThreadPool& threads);

  // Decodes the payloads, ordered by member, and updates `params`. `gradients` is overwritten when
  // an optimizer makes the update. Nothing is changed when a payload is refused. Where the
  // parameters are on a GPU, the work after decoding is done there, with the same bits.
  Result<void> apply(std::span<const transport::Delivery> deliveries, const Round& round,
                     tensor::Arena& params, tensor::Arena& gradients);

  // State of the optimizer; equal on every replica.
  std::vector<optim::OptimizerState> state();

 private:
  struct Workspace {
    explicit Workspace(const DistroTiles& tiles);

    std::vector<int64_t> read;    // a payload: entries of the segment that were used
    std::vector<float> received;  // of one payload and tile
    codec::SlotMeans means;
    std::vector<uint16_t> slots;  // the aggregate of a tile, slots ascending
    std::vector<float> values;
    FloatBuffer transform;
  };

  // Of a tile, slots ascending.
  struct Aggregate {
    std::span<const uint16_t> slots;
    const float* values;
  };

  Result<void> decode(std::span<const transport::Delivery> deliveries, const Round& round);
  void update_on_device(size_t payloads, float lr, tensor::Arena& target);
  // What a tensor's parameters are multiplied with.
  float shrink(size_t tensor, float lr) const;
  // `target` is the arena that the update changes; `next` is the thread's segment after this one.
  void update_segment(size_t segment, size_t next, size_t payloads, float lr,
                      std::span<float> target, Workspace& workspace);
  // The mean of what all members sent of a tile.
  Aggregate aggregate_tile(size_t segment, int64_t tile, size_t payloads, Workspace& workspace);
  void update_tile(size_t tensor, int64_t tile, const Aggregate& aggregate, float lr,
                   std::span<float> target, const tensor::SoonNeeded& soon, Workspace& workspace);
  // The aggregate in the parameters' domain: rows `stride` apart.
  const float* tile_update(size_t tensor, const Aggregate& aggregate, Workspace& workspace,
                           int64_t& stride);

  const method::DistroOptions& options_;
  const config::OptimSection& optim_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::TileUpdate update_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<codec::SparseMessage> received_;  // a payload
  std::vector<Workspace> workspaces_;           // a thread
  std::unique_ptr<DistroDevice> device_;
};

}  // namespace thinwire::sync
