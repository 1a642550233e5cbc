// The sending half of DisTrO: one worker's momentum and what it sends of it
// (thinwire/methods/distro/distro.md). The momentum is kept as coefficients
// (methods/distro/tile_work.h).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/codec/payload.h"
#include "thinwire/methods/distro/tile_work.h"

namespace thinwire::sync {

class DistroEncoder {
 public:
  // Options and tiles must outlive the encoder.
  DistroEncoder(const method::DistroOptions& options, const codec::DistroTiles& tiles,
                ThreadPool& threads);

  // momentum = decay * momentum + gain * gradient; then the largest coefficients are moved from it
  // into the returned payload. The result does not depend on the number of threads, nor on whether
  // the gradients are on a GPU; if they are, the work is done there.
  Bytes encode(const tensor::Arena& gradients, float gain, const codec::PayloadId& id);

  // Adds the values in one of this worker's own payloads back to the momentum; `id` is the one it
  // was encoded with. `reduce`, if it is not empty, says which of them: it removes the others, and
  // returns whether any are left. kCorruptPayload if the payload does not decode.
  using Reduce = std::function<bool(codec::SparseTiles& sent)>;
  Result<void> add_back(std::span<const uint8_t> payload, const codec::PayloadId& id,
                        const Reduce& reduce = {});

  // Sets a tensor's momentum to zero.
  void forget(size_t tensor) { std::ranges::fill(momentum_.tensor(tensor), 0.0f); }

  std::span<float> momentum() { return momentum_.all(); }

 private:
  const method::DistroOptions& options_;
  const codec::DistroTiles& tiles_;
  ThreadPool& threads_;
  tensor::Arena momentum_;
  codec::SparseTiles sent_;
  std::unique_ptr<codec::TileWork> work_;
};

}  // namespace thinwire::sync
