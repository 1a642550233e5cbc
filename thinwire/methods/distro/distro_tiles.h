// The tiles of a model's tensors as DisTrO's encoder and applier work on them: the plan, what each
// kind of tile needs, and loops over all tiles.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/tensor/dct/dct.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::codec {

// Tiles with the same shape and k share their tables.
struct TileKind {
  int rows = 0;
  int columns = 0;
  int kept = 0;
  tensor::TileDct dct;
  std::vector<uint16_t> places = {};  // by slot: its place in an array of all (TileCoefficients)
  int slots() const { return rows * columns; }
};

// The place of one tile of a tensor: its first element in the arena and the distance of its rows.
struct TilePlace {
  int64_t offset = 0;
  int64_t stride = 0;
};

class DistroTiles {
 public:
  DistroTiles(const method::DistroOptions& options, const tensor::Layout& layout);

  const tensor::Layout& layout() const { return layout_; }
  const method::TilePlan& plan() const { return plan_; }
  std::span<const SparseShape> shapes() const { return shapes_; }
  std::span<const SparseSegment> segments() const { return segments_; }
  const std::vector<TileKind>& kinds() const { return kinds_; }
  size_t kind_index(size_t tensor) const { return kind_of_[tensor]; }
  const TileKind& kind(size_t tensor) const { return kinds_[kind_of_[tensor]]; }
  int max_slots() const { return max_slots_; }
  // Number of floats needed for the workspace of any kind's transform.
  int64_t workspace_size() const { return workspace_size_; }

  TilePlace place(size_t tensor, int64_t tile) const {
    const method::TensorTiles& tiles = plan_.tensors[tensor];
    const int64_t row = tile / tiles.grid_columns() * tiles.tile_rows;
    const int64_t column = tile % tiles.grid_columns() * tiles.tile_columns;
    return {layout_.offset(tensor) + row * tiles.columns + column, tiles.columns};
  }

  // Calls body(index, next, thread) for every segment; `next` is the segment that the same thread
  // takes afterwards, if there is one. A thread takes another segment when it has finished one.
  template <typename Body>
  void for_each_segment(ThreadPool& threads, const Body& body) const {
    std::atomic<size_t> untaken = 0;
    threads.for_ranges(threads.size(), 1, [&](int64_t, int64_t, int thread) {
      size_t index = untaken++;
      while (index < segments_.size()) {
        const size_t next = untaken++;
        body(index, next, thread);
        index = next;
      }
    });
  }

  // Calls body(tensor, tile, thread) for every tile, in the same way.
  template <typename Body>
  void for_each(ThreadPool& threads, const Body& body) const {
    for_each_segment(threads, [&](size_t index, size_t, int thread) {
      const SparseSegment& segment = segments_[index];
      for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
        body(segment.tensor, tile, thread);
      }
    });
  }

  // What a thread that works on `tile` of a segment should prefetch from an arena: the offset of as
  // many elements as a tile has, or -1 for nothing. In memory stored tile by tile this is the next
  // tile. In tensors it is a contiguous piece of the next row of tiles, as far into that row as
  // `tile` is into its own, so that memory is read from front to back and a row of tiles has
  // arrived when it is needed.
  int64_t prefetch_by_tile(size_t segment, size_t next, int64_t tile) const {
    return ahead(segment, next, tile + 1);
  }
  int64_t prefetch_by_row(size_t segment, size_t next, int64_t tile) const {
    return ahead(segment, next, tile + plan_.tensors[segments_[segment].tensor].grid_columns());
  }

 private:
  int64_t ahead(size_t segment, size_t next, int64_t tile) const;

  const tensor::Layout& layout_;
  method::TilePlan plan_;
  std::vector<SparseShape> shapes_;
  std::vector<SparseSegment> segments_;
  std::vector<TileKind> kinds_;
  std::vector<size_t> kind_of_;
  int max_slots_ = 0;
  int64_t workspace_size_ = 0;
};

// Floats initialised to zero, aligned for vectors.
using FloatBuffer = hwy::AlignedFreeUniquePtr<float[]>;
FloatBuffer make_float_buffer(int64_t count);

}  // namespace thinwire::codec
