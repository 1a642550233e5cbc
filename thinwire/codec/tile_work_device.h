// TileWork with the kernels of tensor/kernels/portable_tiles.h: on a GPU, or on the CPU with one
// lane per tile. Forms only the mean of what members sent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/codec/sparse.h"
#include "thinwire/codec/tile_work.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/device_buffer.h"

namespace thinwire::codec {

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
    tensor::DeviceBuffer<float> norm;
    tensor::DeviceBuffer<float> basis;
  };
  // What one or more members sent: counts by tile, slots and values as in SparseTiles.
  struct Entries {
    Entries(const tensor::DevicePlace& place, size_t tile_count, size_t kept_count,
            size_t member_count);
    size_t members;
    tensor::DeviceBuffer<uint32_t> counts;
    tensor::DeviceBuffer<uint16_t> slots;
    tensor::DeviceBuffer<float> values;
  };

  size_t add_side(int n);
  tensor::PortableTiles tiles_of(size_t tensor);
  Entries& entries_of(size_t members);
  void list(const SparseMessage& message, size_t member, Entries& entries) const;

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::DevicePlace place_;
  std::vector<Side> sides_;
  std::vector<std::pair<size_t, size_t>> sides_of_;  // by kind: for its rows, for its columns
  tensor::DeviceBuffer<float> rotations_;
  tensor::DeviceScratch<float> scratch_;
  std::optional<tensor::DeviceScratch<float>> senders_;  // made by the first step
  std::unique_ptr<Entries> entries_;
};

}  // namespace thinwire::codec
