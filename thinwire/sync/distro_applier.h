// The receiving half of DisTrO: from a round's committed payloads to updated parameters
// (docs/methods/distro.md). Everything here must have the same bits on every replica, whatever the
// number of threads and the instruction set.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/codec/payload.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/distro_tiles.h"
#include "thinwire/transport/peers.h"

namespace thinwire::sync {

class DistroApplier {
 public:
  // Options, tiles and layout outlive the applier.
  DistroApplier(const method::DistroOptions& options, const config::OptimSection& optim,
                const DistroTiles& tiles, const tensor::Layout& layout, ThreadPool& threads);

  // Decodes the payloads, ordered by member, and updates `params`. `gradients` is overwritten when
  // an optimizer makes the update. Nothing is changed when a payload is refused.
  Result<void> apply(std::span<const transport::Delivery> deliveries, const Round& round,
                     tensor::Arena& params, tensor::Arena& gradients);

  // State of the optimizer; equal on every replica.
  std::vector<optim::OptimizerState> state();

 private:
  enum class Update : uint8_t { kSign, kSgd, kOptimizer };

  struct Workspace {
    std::vector<int64_t> read;      // a payload: entries of the segment that were used
    std::vector<float> received;    // of one payload and tile
    std::vector<float> sums;        // a slot; zero between tiles
    std::vector<uint32_t> senders;  // a slot; zero between tiles
    std::vector<uint64_t> touched;  // a bit a slot; zero between tiles
    std::vector<uint16_t> slots;    // the aggregate of a tile, slots ascending
    std::vector<float> values;
    std::vector<float> divisors;
    FloatBuffer transform;
  };

  Result<void> decode(std::span<const transport::Delivery> deliveries, const Round& round);
  // `target` is the arena that the update changes.
  void update_segment(size_t segment, size_t payloads, float lr, std::span<float> target,
                      Workspace& workspace);
  // Sums what all members sent of a tile and divides; the number of slots that anyone sent.
  size_t aggregate_tile(size_t segment, int64_t tile, size_t payloads, Workspace& workspace);
  size_t take_means(const codec::SparseShape& shape, size_t payloads, Workspace& workspace);
  // The aggregate in the parameters' domain: rows `stride` apart.
  const float* tile_update(size_t tensor, size_t count, const tensor::SoonNeeded& soon,
                           Workspace& workspace, int64_t& stride);
  void update_tile(size_t tensor, float lr, const float* update, int64_t update_stride,
                   std::span<float> target, const TilePlace& place);

  const method::DistroOptions& options_;
  const config::OptimSection& optim_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  Update update_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<codec::SparseMessage> received_;  // a payload
  std::vector<Workspace> workspaces_;           // a thread
};

}  // namespace thinwire::sync
