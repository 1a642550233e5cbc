// How DisTrO cuts parameter tensors into tiles, and how many coefficients it keeps of each
// (thinwire/methods/distro/distro.md; DeMo, arXiv 2411.19870, section 3): a pure function of the
// shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

inline constexpr int64_t kMaxChunk = kMaxTileSide;
inline constexpr int64_t kMaxTileSlots = kMaxChunk * kMaxChunk;

// By what the sum of the members' values of a slot is divided: by the weight of those that sent the
// slot, or of all.
enum class SlotMean : uint8_t { kOfSenders, kOfAll };
inline constexpr std::string_view kSlotMeanNames[] = {"mean_of_senders", "mean_of_all"};
using Names = std::span<const std::string_view>;
constexpr Names names_of(SlotMean) { return kSlotMeanNames; }

// In which number format members receive the mean of their payloads (codec::SparseSum); same: they
// receive the payloads, and add up the values as they are.
enum class SlotSumWire : uint8_t { kSame, kF32, kBf16, kInt8, kTwoBit, kOneBit };
inline constexpr std::string_view kSlotSumWireNames[] = {"same", "fp32", "bf16",
                                                         "int8", "2bit", "1bit"};
constexpr Names names_of(SlotSumWire) { return kSlotSumWireNames; }

// The fields sum_wire and sum_k of the methods that send slots of tiles.
struct SlotSums {
  SlotSumWire wire = SlotSumWire::kSame;
  int64_t k = 0;  // slots of a full tile; 0: all that were sent

  bool formed() const { return wire != SlotSumWire::kSame; }
  ValueFormat values() const;
  // Of a tile of `all` slots, where as many are full.
  int64_t kept(int64_t all) const { return k == 0 ? all : k; }
  // `unit`: of what is sent.
  void describe(config::Fields& fields, const char* unit);
  // Throws UsageError, in the name of the table. `sent`: the table's k.
  void check(std::string_view table, int64_t sent, const config::Recipe& recipe) const;
};

// One tensor seen as a matrix rows x columns (a vector is one row; all but the last dimension count
// as rows) and cut into tiles of tile_rows x tile_columns, row-major over the grid.
struct TensorTiles {
  int64_t rows = 0;
  int64_t columns = 0;
  int tile_rows = 0;
  int tile_columns = 0;
  int kept = 0;            // k: coefficients sent of each tile, 1 <= kept <= slots()
  int64_t first_tile = 0;  // tiles of the tensors before this one
  int64_t first_kept = 0;  // coefficients sent of the tensors before this one

  int slots() const { return tile_rows * tile_columns; }  // n
  int64_t grid_columns() const { return columns / tile_columns; }
  int64_t tiles() const { return rows / tile_rows * grid_columns(); }
};

struct TilePlan {
  std::vector<TensorTiles> tensors;
  int64_t tiles = 0;  // of all tensors
  int64_t kept = 0;   // largest number of coefficients sent per step
};

struct TileRule {
  int64_t chunk = 64;    // largest side of a tile, 1 .. kMaxChunk
  int64_t k = 32;        // coefficients kept of a full tile of chunk * chunk slots
  bool fixed_k = false;  // keep k in smaller tiles too, instead of their share
};

// The largest divisor of `length` that is at most `chunk`; both >= 1.
int tile_side(int64_t length, int64_t chunk);

// Coefficients kept of a tile of `slots`: the share of k, rounded half up, at least 1; or min(k,
// slots).
int kept_of_tile(int64_t slots, const TileRule& rule);

TilePlan plan_tiles(std::span<const TensorSpec> tensors, const TileRule& rule);

}  // namespace thinwire::method
