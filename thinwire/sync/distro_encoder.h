// The sending half of DisTrO: one worker's momentum and what it sends of it
// (docs/methods/distro.md). The momentum is kept as coefficients: tensor t's tiles one after the
// other from the tensor's offset, each column by column as tensor::TileDct::accumulate has it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/codec/payload.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/sync/distro_device.h"
#include "thinwire/sync/distro_tiles.h"

namespace thinwire::sync {

class DistroEncoder {
 public:
  // Options, tiles and layout outlive the encoder.
  DistroEncoder(const method::DistroOptions& options, const DistroTiles& tiles,
                const tensor::Layout& layout, ThreadPool& threads);

  // momentum = decay * momentum + gain * gradient; the largest coefficients are taken out of it
  // into the payload that is returned. The result does not depend on the number of threads, nor on
  // whether the gradients are on a GPU, where the work is then done.
  Bytes encode(const tensor::Arena& gradients, float gain, const codec::PayloadId& id);

  std::span<float> momentum() { return momentum_.all(); }

 private:
  struct Workspace {
    std::vector<codec::TopK> top_k;  // a kind of tile
    FloatBuffer transform;
  };

  void take_from_tile(const tensor::Arena& gradients, float gain, size_t tensor, int64_t tile,
                      const tensor::SoonNeeded& soon, Workspace& workspace);
  void take_from_tiles(const tensor::Arena& gradients, float gain);
  void quantise_tensor(size_t tensor);
  void put_back(size_t tensor);

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::Arena momentum_;
  codec::SparseTiles sent_;
  std::vector<uint32_t> guesses_;      // a tile; TopK::take
  std::vector<float> exact_;           // values before quantisation; with feedback only
  std::vector<Workspace> workspaces_;  // a thread
  std::unique_ptr<DistroDevice> device_;
};

}  // namespace thinwire::sync
