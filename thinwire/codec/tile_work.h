// What DisTrO does with all tiles of a model (docs/methods/distro.md), wherever the parameters are:
// on a GPU where an arena has its copy there, else on the processor. Both have the same bits, and
// so has any number of threads; payloads are packed and unpacked on the processor.
#pragma once

#include <memory>
#include <span>

#include "thinwire/base/threads.h"
#include "thinwire/codec/distro_tiles.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/method/distro.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::codec {

// How aggregated tiles change an arena.
struct TileStep {
  tensor::TileUpdate update;
  std::span<const float> shrink;  // of each tensor: what its parameters are multiplied with
  float learning_rate;
};

// For one thread, which may use the pool.
class TileWork {
 public:
  virtual ~TileWork() = default;

  // momentum = decay * momentum + gain * gradients; the largest coefficients move to `sent`. The
  // momentum is kept as coefficients: tensor t's tiles one after the other from the tensor's
  // offset, each column by column as tensor::TileDct::accumulate has it.
  virtual void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
                    SparseTiles& sent) = 0;
  // With feedback: what take() moved last to `sent`, less what its values are now, goes back into
  // the momentum.
  virtual void put_back(const SparseTiles& sent, tensor::Arena& momentum) = 0;
  // Updates `target` by the mean of the decoded messages, ordered by member.
  virtual void step(std::span<const SparseMessage> messages, const TileStep& step,
                    tensor::Arena& target) = 0;
};

// Options, tiles, layout and threads outlive it. Its functions throw Error where a GPU lacks
// memory.
std::unique_ptr<TileWork> make_tile_work(const method::DistroOptions& options,
                                         const DistroTiles& tiles, const tensor::Layout& layout,
                                         ThreadPool& threads);

}  // namespace thinwire::codec
