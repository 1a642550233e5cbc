#include "thinwire/method/tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::method {

ValueFormat SlotSums::values() const {
  using enum ValueFormat;
  constexpr ValueFormat kFormats[] = {kF32, kF32, kBf16, kInt8, kTwoBit, kOneBit};
  return kFormats[static_cast<size_t>(wire)];
}

void SlotSums::describe(config::Fields& fields, const char* unit) {
  fields.choice("sum_wire", wire,
                "Number format of the mean of all payloads, which members then receive in place of "
                "the payloads where that is less; same: each receives every payload.");
  fields.integer(
      "sum_k", k, unit, 0, kMaxTileSlots,
      "With sum_wire: how many the mean keeps of a full tile or chunk, those of the largest sums, "
      "so that it is as large with any number of workers; 0: all that were sent.");
}

void SlotSums::check(std::string_view table, int64_t sent, const config::Recipe& recipe) const {
  const auto require = [&](bool holds, const std::string& message) {
    if (!holds) throw UsageError(fmt::format("[{}] {}", table, message));
  };
  require(k == 0 || formed(),
          fmt::format("sum_k = {} needs a sum_wire other than \"same\": without one there is no "
                      "sum of its own",
                      k));
  require(
      k == 0 || k >= sent,
      fmt::format("sum_k must be 0 or at least k = {}, got {}: a sum holds what one worker sends",
                  sent, k));
  require(!formed() || !recipe.sync.aggregation().robust(),
          fmt::format("sum_wire = \"{}\" needs sync.aggregate = \"mean\", got \"{}\": that rule "
                      "judges contributions one by one, so members receive each of them",
                      name_of(wire), name_of(recipe.sync.aggregate)));
}

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
