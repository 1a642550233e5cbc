// DisTrO's encoder and applier where the parameters are: the kernels of tensor/portable_tiles.h
// over all tiles, on a GPU or, one lane a tile, on the processor. Results have the bits of the
// processor's own code (distro_encoder.h, distro_applier.h), which remains what runs there;
// payloads are packed and unpacked on the processor.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/codec/sparse.h"
#include "thinwire/sync/distro_tiles.h"
#include "thinwire/tensor/mirror.h"
#include "thinwire/tensor/portable_tiles.h"

namespace thinwire::sync {

// Whether an arena has a copy on a GPU.
inline bool on_gpu(const tensor::Arena& arena) {
  return arena.device() != nullptr && arena.device()->kind == Device::kCuda;
}

// Numbers on the processor with a copy on a device, or without where the device is the processor.
class DeviceValues {
 public:
  DeviceValues(const tensor::DevicePlace& place, size_t count);

  std::vector<float>& host() { return host_; }
  float* device() { return mirror_ == nullptr ? host_.data() : mirror_->data(); }
  void upload();
  void download();

 private:
  std::vector<float> host_;
  std::unique_ptr<tensor::Mirror> mirror_;
};

class DistroDevice {
 public:
  // Options, tiles, layout and threads outlive it. Throws Error when the device lacks memory.
  DistroDevice(const method::DistroOptions& options, const DistroTiles& tiles,
               const tensor::Layout& layout, ThreadPool& threads, const tensor::DevicePlace& place);

  // momentum = decay * momentum + gain * gradients; the largest coefficients move to `sent`.
  void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
            codec::SparseTiles& sent);
  // What take() moved last to `sent`, less what its values are now, goes back into the momentum.
  void put_back(const codec::SparseTiles& sent, tensor::Arena& momentum);

  // Updates `target` by the mean of the decoded messages. `update` is as in portable_tiles.h; of
  // each tensor: shrink.
  void step(std::span<const codec::SparseMessage> messages, tensor::TileUpdate update,
            std::span<const float> shrink, float lr, tensor::Arena& target);

 private:
  struct Side {
    int n;
    int64_t stride;
    DeviceValues norm;
    DeviceValues basis;
  };
  // What one or more members sent, as numbers: counts by tile, slots and values as in SparseTiles.
  struct Entries {
    Entries(const tensor::DevicePlace& place, size_t tile_count, size_t kept_count,
            size_t member_count);
    size_t members;
    DeviceValues counts, slots, values;
  };

  size_t add_side(int n);
  tensor::PortableTiles tiles_of(size_t tensor);
  float* values_of(tensor::Arena& arena) const;
  const float* values_of(const tensor::Arena& arena) const;
  Entries& entries_of(size_t members);
  void list(const codec::SparseMessage& message, size_t member, Entries& entries) const;

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::DevicePlace place_;
  std::vector<Side> sides_;
  std::vector<std::pair<size_t, size_t>> sides_of_;  // a kind: of its rows, of its columns
  DeviceValues rotations_;
  DeviceValues scratch_;
  std::unique_ptr<DeviceValues> senders_;  // made by the first step
  std::unique_ptr<Entries> entries_;
};

}  // namespace thinwire::sync
