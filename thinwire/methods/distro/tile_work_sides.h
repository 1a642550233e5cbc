// The two sides that tile_work.h chooses from: the CPU's vector instructions, and a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/codec/slot_means.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/methods/distro/tile_work.h"
#include "thinwire/tensor/dct/dct.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::codec {

// TileWork on the CPU, with the vector code of tensor/dct/dct.h and of this layer.
class VectorTileWork final : public TileWork {
 public:
  // Options, tiles and threads must outlive it.
  VectorTileWork(const method::DistroOptions& options, const DistroTiles& tiles,
                 ThreadPool& threads)
      : options_(options), tiles_(tiles), threads_(threads) {}

  void take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
            SparseTiles& sent) override;
  void add_back(const SparseTiles& sent, tensor::Arena& momentum) override;
  void step(std::span<const SparseMessage> messages, const TileStep& step,
            tensor::Arena& target) override;

 private:
  // One thread's memory; made by the first take() and the first step().
  struct TakeMemory {
    explicit TakeMemory(const DistroTiles& tiles);
    std::vector<TopK> top_k;  // by kind of tile
    FloatBuffer transform;
  };
  struct StepMemory {
    explicit StepMemory(const DistroTiles& tiles);
    std::vector<int64_t> read;    // by message: entries of the segment used so far
    std::vector<float> received;  // of one message and tile
    SlotMeans means;
    SparseRows rows;               // with a rule other than the mean
    std::vector<float> aggregate;  // likewise, by slot
    std::vector<uint16_t> slots;   // the aggregate of a tile, slots ascending
    std::vector<float> values;     // theirs, or all of a tile
    FloatBuffer transform;
  };
  using Aggregate = tensor::TileCoefficients;

  void take_from_tile(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
                      SparseTiles& sent, size_t tensor, int64_t tile,
                      const tensor::PrefetchHints& prefetch, TakeMemory& memory);
  void add_back(const SparseTiles& sent, size_t tensor, std::span<float> momentum) const;
  // `next` is the thread's segment after this one.
  void step_segment(size_t segment, size_t next, std::span<const SparseMessage> messages,
                    const TileStep& step, std::span<float> target, StepMemory& memory) const;
  // The mean of what all members sent of a tile.
  Aggregate aggregate_tile(size_t segment, int64_t tile, std::span<const SparseMessage> messages,
                           StepMemory& memory) const;
  // Whether a mean takes that form (tensor::is_dense).
  bool is_dense(std::span<const SparseMessage> messages, const SparseShape& shape,
                int64_t tile) const;
  // The same by another rule.
  Aggregate aggregate_tile(size_t segment, int64_t tile, std::span<const SparseMessage> messages,
                           const Aggregation& aggregation, StepMemory& memory) const;
  void step_tile(size_t tensor, int64_t tile, const Aggregate& aggregate, const TileStep& step,
                 std::span<float> target, const tensor::PrefetchHints& prefetch,
                 StepMemory& memory) const;
  // The aggregate in the parameters' domain: rows `stride` apart.
  const float* tile_update(size_t tensor, const Aggregate& aggregate, StepMemory& memory,
                           int64_t& stride) const;

  const method::DistroOptions& options_;
  const DistroTiles& tiles_;
  ThreadPool& threads_;
  std::vector<TakeMemory> taking_;    // by thread
  std::vector<StepMemory> stepping_;  // by thread
  std::vector<uint32_t> guesses_;     // by tile; see TopK::take
  std::vector<float> exact_;          // values before quantisation; only with feedback
};

// TileWork with the kernels of tensor/kernels/portable_tiles.h: on a GPU, or on the CPU with one
// lane per tile. Forms only the mean of what members sent.
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
