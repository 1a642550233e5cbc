// TileWork on the CPU, with the vector code of tensor/dct/dct.h and of this layer.
#pragma once

#include <vector>

#include "thinwire/codec/slot_means.h"
#include "thinwire/codec/sparse_rows.h"
#include "thinwire/codec/tile_work.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/tensor/dct/dct.h"

namespace thinwire::codec {

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

}  // namespace thinwire::codec
