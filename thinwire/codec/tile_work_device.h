// TileWork with the kernels of tensor/kernels/portable_tiles.h: on a GPU, or on the CPU with one
// lane per tile, which tests compare with VectorTileWork.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/codec/sparse.h"
#include "thinwire/codec/tile_work.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/mirror.h"

namespace thinwire::codec {

// Numbers in host memory with a copy on a device, or without one if the device is the CPU.
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

class DeviceTileWork final : public TileWork {
 public:
  // Options, tiles, layout and threads must outlive it. Throws Error when the device lacks memory.
  DeviceTileWork(const method::DistroOptions& options, const DistroTiles& tiles,
                 const tensor::Layout& layout, ThreadPool& threads,
                 const tensor::DevicePlace& place);

  void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
            SparseTiles& sent) override;
  void add_back(const SparseTiles& sent, tensor::Arena& momentum) override;
  void step(std::span<const SparseMessage> messages, const TileStep& step,
            tensor::Arena& target) override;

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
  void list(const SparseMessage& message, size_t member, Entries& entries) const;

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::DevicePlace place_;
  std::vector<Side> sides_;
  std::vector<std::pair<size_t, size_t>> sides_of_;  // by kind: for its rows, for its columns
  DeviceValues rotations_;
  DeviceValues scratch_;
  std::unique_ptr<DeviceValues> senders_;  // made by the first step
  std::unique_ptr<Entries> entries_;
};

}  // namespace thinwire::codec
