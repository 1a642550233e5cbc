#include "thinwire/method/tiles.h"

#include <algorithm>

namespace thinwire::method {

int tile_side(int64_t length, int64_t chunk) {
  int64_t side = std::min(length, chunk);
  while (length % side != 0) --side;
  return static_cast<int>(side);
}

int kept_of_tile(int64_t slots, const TileRule& rule) {
  if (rule.fixed_k) return static_cast<int>(std::min(rule.k, slots));
  const int64_t full = rule.chunk * rule.chunk;
  const int64_t share = (2 * rule.k * slots + full) / (2 * full);
  return static_cast<int>(std::clamp<int64_t>(share, 1, slots));
}

TilePlan plan_tiles(std::span<const TensorSpec> tensors, const TileRule& rule) {
  TilePlan plan;
  plan.tensors.reserve(tensors.size());
  for (const TensorSpec& spec : tensors) {
    TensorTiles tiles;
    tiles.columns = spec.shape.empty() ? 1 : spec.shape.back();
    tiles.rows = spec.count() / tiles.columns;
    tiles.tile_rows = tile_side(tiles.rows, rule.chunk);
    tiles.tile_columns = tile_side(tiles.columns, rule.chunk);
    tiles.kept = kept_of_tile(tiles.slots(), rule);
    tiles.first_tile = plan.tiles;
    tiles.first_kept = plan.kept;
    plan.tiles += tiles.tiles();
    plan.kept += tiles.tiles() * tiles.kept;
    plan.tensors.push_back(tiles);
  }
  return plan;
}

}  // namespace thinwire::method
