#include "thinwire/methods/distro/distro_tiles.h"

namespace thinwire::codec {
namespace {

std::vector<uint16_t> places_of(int rows, int columns) {
  std::vector<uint16_t> places;
  for (int a = 0; a < rows; ++a) {
    for (int b = 0; b < columns; ++b) places.push_back(static_cast<uint16_t>(b * rows + a));
  }
  return places;
}

}  // namespace

DistroTiles::DistroTiles(const method::DistroOptions& options, const tensor::Layout& layout)
    : layout_(layout),
      plan_(method::plan_tiles(layout.specs(), options.tiles())),
      shapes_(shapes_of(plan_)) {
  for (const method::TensorTiles& tiles : plan_.tensors) {
    const auto same = [&](const TileKind& kind) {
      return kind.rows == tiles.tile_rows && kind.columns == tiles.tile_columns &&
             kind.kept == tiles.kept;
    };
    const auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
    kind_of_.push_back(static_cast<size_t>(found - kinds_.begin()));
    if (found != kinds_.end()) continue;
    kinds_.push_back({tiles.tile_rows, tiles.tile_columns, tiles.kept,
                      tensor::TileDct(tiles.tile_rows, tiles.tile_columns),
                      places_of(tiles.tile_rows, tiles.tile_columns)});
    max_slots_ = std::max(max_slots_, tiles.slots());
    workspace_size_ = std::max(workspace_size_, kinds_.back().dct.workspace_size());
  }
  segments_ = cut_segments(shapes_);
}

int64_t DistroTiles::ahead(size_t segment, size_t next, int64_t tile) const {
  const SparseSegment* part = &segments_[segment];
  if (tile >= part->first_tile + part->tiles) {
    const int64_t behind = tile - (part->first_tile + part->tiles);
    if (next >= segments_.size() || behind >= segments_[next].tiles) return -1;
    part = &segments_[next];
    tile = part->first_tile + behind;
  }
  return layout_.offset(part->tensor) + tile * shapes_[part->tensor].slots;
}

FloatBuffer make_float_buffer(int64_t count) {
  FloatBuffer buffer = hwy::AllocateAligned<float>(static_cast<size_t>(count));
  std::fill_n(buffer.get(), count, 0.0f);
  return buffer;
}

}  // namespace thinwire::codec
