// DisTrO's arithmetic on tiles (docs/methods/distro.md), written once for CPU and GPU like the
// passes of portable_kernels.h, with one call per tile. Every operation is rounded by itself, in
// the graph that dct.h describes, so a GPU's results have the bits of the CPU's vector code: sums
// over lanes are only used for counting.
//
// A tile has h rows and w columns, n = h * w slots; slot a * w + b is the coefficient of vertical
// frequency a and horizontal frequency b. T tiles of one tensor, G of them side by side.
#pragma once

#include <bit>
#include <cstdint>

#include "thinwire/tensor/dct/dct.h"
#include "thinwire/tensor/dct/portable_dct.h"

namespace thinwire::tensor {

// Where the tiles of one tensor are; a tile's place follows from its index.
struct PortableTiles {
  PortableSide rows;     // h
  PortableSide columns;  // w
  int64_t grid_columns;  // G
  bool transformed;      // false: the tile's elements are used as its coefficients

  THINWIRE_DEVICE int64_t slots() const { return int64_t{rows.n} * columns.n; }
  THINWIRE_DEVICE int64_t stride() const { return grid_columns * columns.n; }
  THINWIRE_DEVICE int64_t first(int64_t tile) const {
    return tile / grid_columns * rows.n * stride() + tile % grid_columns * columns.n;
  }
};

// Momentum update and selection, as in TileDct::accumulate and codec::TopK: the momentum is stored
// tile by tile, each column by column. Coefficients that are taken become zero there.
struct TakeFromTiles {
  PortableTiles tiles;
  float decay;
  float gain;
  int kept;
  const float* gradients;  // of the tensor
  float* momentum_Tn;
  float* scratch_Tn;
  // What was taken; slots and counts are stored as whole numbers.
  float* counts_T;
  float* slots_Tk;
  float* values_Tk;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    float* const momentum = momentum_Tn + tile * tiles.slots();
    float* const scratch = scratch_Tn + tile * tiles.slots();
    blend(lanes, gradients + tiles.first(tile), momentum, scratch);
    lanes.barrier();
    const uint32_t least = least_taken(lanes, momentum);
    plan_rows(lanes, momentum, least, scratch);
    lanes.barrier();
    if (lanes.index() == 0) counts_T[tile] = share_out(scratch);
    lanes.barrier();
    take(lanes, momentum, least, scratch, slots_Tk + tile * kept, values_Tk + tile * kept);
  }

 private:
  THINWIRE_DEVICE static uint32_t bits(float value) {
    return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  }

  template <typename Lanes>
  THINWIRE_DEVICE void blend(Lanes& lanes, const float* tile, float* momentum,
                             float* scratch) const {
    const int h = tiles.rows.n, w = tiles.columns.n;
    float v[kMaxTileSide];
    for (int64_t x = lanes.index(); x < w; x += lanes.count()) {
      for (int y = 0; y < h; ++y) v[y] = tile[y * tiles.stride() + x];
      if (tiles.transformed) portable_forward(tiles.rows, v);
      for (int a = 0; a < h; ++a) scratch[a * w + x] = v[a];
    }
    lanes.barrier();
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      for (int x = 0; x < w; ++x) v[x] = scratch[a * w + x];
      if (tiles.transformed) portable_forward(tiles.columns, v);
      for (int b = 0; b < w; ++b) {
        float& to = momentum[b * h + a];
        to = decay * to + gain * v[b];
      }
    }
  }

  // Bits of the largest value that at least `kept` absolute values reach; of the smallest number
  // above zero if fewer are nonzero.
  template <typename Lanes>
  THINWIRE_DEVICE uint32_t least_taken(Lanes& lanes, const float* momentum) const {
    uint32_t limit = 0;
    for (int bit = 30; bit >= 0; --bit) {
      const uint32_t tried = limit | 1u << bit;
      int reached = 0;
      for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
        reached += bits(momentum[i]) >= tried ? 1 : 0;
      }
      // Whole numbers up to 2^16: exact, in whatever order they are added.
      if (lanes.sum(static_cast<float>(reached)) >= static_cast<float>(kept)) limit = tried;
    }
    return limit == 0 ? 1 : limit;
  }

  // How many values of row a are above `least` and how many equal it, packed into plan[a].
  template <typename Lanes>
  THINWIRE_DEVICE void plan_rows(Lanes& lanes, const float* momentum, uint32_t least,
                                 float* plan) const {
    const int h = tiles.rows.n;
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      uint32_t above = 0, equal = 0;
      for (int b = 0; b < tiles.columns.n; ++b) {
        above += bits(momentum[b * h + a]) > least ? 1 : 0;
        equal += bits(momentum[b * h + a]) == least ? 1 : 0;
      }
      plan[a] = std::bit_cast<float>(above << kShift | equal);
    }
  }

  // Turns the plan into where each row's entries begin and how many equal values it may take, which
  // are those with the lowest slots. Returns the number of entries.
  THINWIRE_DEVICE float share_out(float* plan) const {
    uint32_t above = 0;
    for (int a = 0; a < tiles.rows.n; ++a) above += std::bit_cast<uint32_t>(plan[a]) >> kShift;
    uint32_t spare = static_cast<uint32_t>(kept) - above;
    uint32_t start = 0;
    for (int a = 0; a < tiles.rows.n; ++a) {
      const auto row = std::bit_cast<uint32_t>(plan[a]);
      const uint32_t equal = row & kMask;
      const uint32_t quota = equal < spare ? equal : spare;
      plan[a] = std::bit_cast<float>(start << kShift | quota);
      start += (row >> kShift) + quota;
      spare -= quota;
    }
    return static_cast<float>(start);
  }

  template <typename Lanes>
  THINWIRE_DEVICE void take(Lanes& lanes, float* momentum, uint32_t least, const float* plan,
                            float* slots, float* values) const {
    const int h = tiles.rows.n, w = tiles.columns.n;
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      const auto row = std::bit_cast<uint32_t>(plan[a]);
      uint32_t at = row >> kShift;
      uint32_t quota = row & kMask;
      for (int b = 0; b < w; ++b) {
        float& value = momentum[b * h + a];
        if (bits(value) < least || (bits(value) == least && quota == 0)) continue;
        if (bits(value) == least) --quota;
        slots[at] = static_cast<float>(a * w + b);
        values[at++] = value;
        value = 0;
      }
    }
  }

  static constexpr uint32_t kShift = 9;  // a row has at most 256 values
  static constexpr uint32_t kMask = (1u << kShift) - 1;
};

// Puts what the receivers do not get back where TakeFromTiles took it from.
struct PutIntoTiles {
  PortableTiles tiles;
  int kept;
  const float* counts_T;
  const float* slots_Tk;
  const float* values_Tk;
  float* momentum_Tn;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    const auto count = static_cast<int64_t>(counts_T[tile]);
    for (int64_t i = lanes.index(); i < count; i += lanes.count()) {
      const auto slot = static_cast<int64_t>(slots_Tk[tile * kept + i]);
      const int64_t position = slot % tiles.columns.n * tiles.rows.n + slot / tiles.columns.n;
      momentum_Tn[tile * tiles.slots() + position] = values_Tk[tile * kept + i];
    }
  }
};

enum class TileUpdate : uint8_t { kSign, kSubtract, kStore };

// The mean of what P members sent, slot by slot in member order, its inverse in one of its two
// forms (is_dense), and the update, as in codec::SlotMeans and TileDct::step: params = shrink *
// params - lr * sign(x), or - x; or x itself is stored.
struct StepTiles {
  PortableTiles tiles;
  TileUpdate update;
  float shrink;
  float lr;
  bool of_senders;  // mean over senders; else over all P
  int kept;
  int64_t members;       // P
  int64_t count_stride;  // from one member's counts_T to the next's
  int64_t slot_stride;   // from one member's slots and values to the next's
  const float* counts_PT;
  const float* slots_PTk;
  const float* values_PTk;
  float* scratch_Tn;
  float* senders_Tn;
  float* params;  // of the tensor

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    const int h = tiles.rows.n, w = tiles.columns.n;
    float* const means = scratch_Tn + tile * tiles.slots();
    float* const senders = senders_Tn + tile * tiles.slots();
    sum(lanes, tile, means, senders);
    if (tiles.transformed) {
      // The rows of the inverse, one for each vertical frequency, overwrite `senders`.
      const bool dense = is_dense(members, entries(tile), tiles.slots());
      for (int64_t a = lanes.index(); a < h; a += lanes.count())
        along(dense, means + a * w, senders + a * w);
      lanes.barrier();
    }
    const float* const found = tiles.transformed ? senders : means;
    for (int64_t x = lanes.index(); x < w; x += lanes.count()) {
      float v[kMaxTileSide];
      for (int a = 0; a < h; ++a) v[a] = found[a * w + x];
      if (tiles.transformed) portable_inverse(tiles.rows, v);
      float* const to = params + tiles.first(tile) + x;
      for (int y = 0; y < h; ++y) apply(v[y], to[y * tiles.stride()]);
    }
  }

 private:
  template <typename Lanes>
  THINWIRE_DEVICE void sum(Lanes& lanes, int64_t tile, float* means, float* senders) const {
    for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
      means[i] = 0;
      senders[i] = 0;
    }
    for (int64_t member = 0; member < members; ++member) {
      lanes.barrier();  // slots of one member are distinct, those of two need not be
      const auto count = static_cast<int64_t>(counts_PT[member * count_stride + tile]);
      const int64_t first = member * slot_stride + tile * kept;
      for (int64_t i = lanes.index(); i < count; i += lanes.count()) {
        const auto slot = static_cast<int64_t>(slots_PTk[first + i]);
        means[slot] = means[slot] + values_PTk[first + i];
        senders[slot] = senders[slot] + 1.0f;
      }
    }
    lanes.barrier();
    for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
      if (senders[i] == 0) continue;
      means[i] = means[i] * (1.0f / (of_senders ? senders[i] : static_cast<float>(members)));
    }
    lanes.barrier();
  }

  // How many all members together sent.
  THINWIRE_DEVICE int64_t entries(int64_t tile) const {
    int64_t count = 0;
    for (int64_t member = 0; member < members; ++member) {
      count += static_cast<int64_t>(counts_PT[member * count_stride + tile]);
    }
    return count;
  }

  // In a tile that is not dense, entries that nobody sent are zeros and change no sum.
  THINWIRE_DEVICE void along(bool dense, const float* means, float* row) const {
    const int w = tiles.columns.n;
    if (dense) {
      float v[kMaxTileSide];
      for (int b = 0; b < w; ++b) v[b] = means[b];
      portable_inverse(tiles.columns, v);
      for (int x = 0; x < w; ++x) row[x] = v[x];
      return;
    }
    for (int x = 0; x < w; ++x) row[x] = 0;
    for (int b = 0; b < w; ++b) {
      if (means[b] == 0) continue;
      for (int x = 0; x < w; ++x)
        row[x] = row[x] + means[b] * tiles.columns.basis[b * tiles.columns.stride + x];
    }
  }

  THINWIRE_DEVICE void apply(float x, float& to) const {
    if (update == TileUpdate::kStore) {
      to = x;
    } else if (update == TileUpdate::kSubtract) {
      to = to * shrink - x;
    } else {
      to = to * shrink - (x > 0 ? lr : x < 0 ? -lr : 0.0f);
    }
  }
};

}  // namespace thinwire::tensor
