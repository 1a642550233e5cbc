// What DisTrO does with all tiles of a model (thinwire/methods/distro/distro.md): on the device
// where the arenas have a copy, if they have one, else on the CPU. Both give the same bits, with
// any number of threads; payloads are packed and unpacked on the CPU.
#pragma once

#include <memory>
#include <span>

#include "thinwire/base/threads.h"
#include "thinwire/codec/aggregation.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/distro/distro_tiles.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::codec {

// How aggregated tiles change an arena.
struct TileStep {
  tensor::TileUpdate update;
  std::span<const float> shrink;  // by tensor: the factor for its parameters
  float learning_rate;
  const Aggregation* aggregation = nullptr;  // of the messages; null: their mean
};

// Called by one thread, which may use the pool.
class TileWork {
 public:
  virtual ~TileWork() = default;

  // momentum = decay * momentum + gain * gradients; then the largest coefficients move to `sent`.
  // The momentum is kept as coefficients: tensor t's tiles one after another from the tensor's
  // offset, each column by column as in tensor::TileDct::accumulate.
  virtual void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
                    SparseTiles& sent) = 0;
  // With feedback: adds to the momentum what the last take() moved to `sent`, minus the values that
  // `sent` holds now.
  virtual void add_back(const SparseTiles& sent, tensor::Arena& momentum) = 0;
  // Updates `target` by the aggregate of the decoded messages, ordered by member. Any but their
  // mean is formed on the CPU.
  virtual void step(std::span<const SparseMessage> messages, const TileStep& step,
                    tensor::Arena& target) = 0;
};

// Options, tiles, layout and threads must outlive it. Its functions throw Error if a GPU runs out
// of memory.
std::unique_ptr<TileWork> make_tile_work(const method::DistroOptions& options,
                                         const DistroTiles& tiles, const tensor::Layout& layout,
                                         ThreadPool& threads);

}  // namespace thinwire::codec
