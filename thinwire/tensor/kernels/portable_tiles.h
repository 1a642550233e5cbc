// DisTrO's arithmetic on tiles (thinwire/methods/distro/distro.md), written once for CPU and GPU
// like the passes of portable_kernels.h, with one call per tile. Every operation is rounded by
// itself, in the graph that dct.h describes, so a GPU's results have the bits of the CPU's vector
// code: sums over lanes are only used for counting.
//
// A tile has h rows and w columns, n = h * w slots; slot a * w + b is the coefficient of vertical
// frequency a and horizontal frequency b. T tiles of one tensor, G of them side by side.
#pragma once

#include <bit>
#include <cmath>
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
  // Where momentum and sums have the value of a slot: column by column.
  THINWIRE_DEVICE int64_t place_of(int64_t slot) const {
    return slot % columns.n * rows.n + slot / columns.n;
  }
  THINWIRE_DEVICE int64_t stride() const { return grid_columns * columns.n; }
  THINWIRE_DEVICE int64_t first(int64_t tile) const {
    return tile / grid_columns * rows.n * stride() + tile % grid_columns * columns.n;
  }
};

// Threads of a block for one tile: a tile's rows and columns, of 64 elements in most models, are
// transformed by one thread each.
inline constexpr int kTileThreads = 64;

// Momentum update and selection, as in TileDct::accumulate and codec::TopK: the momentum is stored
// tile by tile, each column by column. Coefficients that are taken become zero there.
struct TakeFromTiles {
  static constexpr int kBlockThreads = kTileThreads;

  PortableTiles tiles;
  float decay;
  float gain;
  int kept;
  const float* gradients;  // of the tensor
  float* momentum_Tn;
  float* scratch_Tn;
  // What was taken.
  uint32_t* counts_T;
  uint16_t* slots_Tk;
  float* values_Tk;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    const bool held =
        tiles.transformed && lanes.count() >= tiles.rows.n && tiles.columns.n == kTileThreads;
    held ? take_held(lanes, tile) : take_any(lanes, tile);
  }

 private:
  THINWIRE_DEVICE static uint32_t bits(float value) {
    return std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  }

  // Each lane takes one row, whose values it holds in registers.
  template <typename Lanes>
  THINWIRE_DEVICE void take_held(Lanes& lanes, int64_t tile) const {
    constexpr int kWidth = kTileThreads;
    const int h = tiles.rows.n;
    float* const momentum = momentum_Tn + tile * tiles.slots();
    float* const scratch = scratch_Tn + tile * tiles.slots();
    transform_columns(lanes, gradients + tiles.first(tile), scratch);
    lanes.barrier();
    const int64_t a = lanes.index();
    float row[kWidth];
    THINWIRE_DEVICE_UNROLL
    for (int b = 0; b < kWidth; ++b) row[b] = 0;
    if (a < h) {
      portable_forward_of<kWidth>(
          tiles.columns, [&](int x) { return scratch[a * kWidth + x]; },
          [&](int b, float value) { row[b] = value; });
      THINWIRE_DEVICE_UNROLL
      for (int b = 0; b < kWidth; ++b) row[b] = decay * momentum[b * h + a] + gain * row[b];
    }
    float largest = 0;
    THINWIRE_DEVICE_UNROLL
    for (int b = 0; b < kWidth; ++b) largest = std::fmax(largest, std::fabs(row[b]));
    const uint32_t least = least_taken(lanes, largest, [&](uint32_t tried) {
      int count = 0;
      THINWIRE_DEVICE_UNROLL
      for (int b = 0; b < kWidth; ++b) count += bits(row[b]) >= tried ? 1 : 0;
      return count;
    });
    const auto value = [&](int b) -> float& { return row[b]; };
    uint32_t above = 0;
    if (a < h) above = count_row<kWidth>(least, value, scratch[a]);
    const uint32_t spare = spare_after(lanes, above);
    if (a >= h) return;
    take_row<kWidth>(a, least, spare, value, scratch, tile);
    THINWIRE_DEVICE_UNROLL
    for (int b = 0; b < kWidth; ++b) momentum[b * h + a] = row[b];
  }

  template <typename Lanes>
  THINWIRE_DEVICE void take_any(Lanes& lanes, int64_t tile) const {
    const int h = tiles.rows.n, w = tiles.columns.n;
    float* const momentum = momentum_Tn + tile * tiles.slots();
    float* const scratch = scratch_Tn + tile * tiles.slots();
    transform_columns(lanes, gradients + tiles.first(tile), scratch);
    lanes.barrier();
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      const auto halfway = [&](int x) { return scratch[a * w + x]; };
      const auto add = [&](int b, float value) {
        float& to = momentum[b * h + a];
        to = decay * to + gain * value;
      };
      transform(tiles.columns, halfway, add);
    }
    lanes.barrier();
    float largest = 0;
    for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
      largest = std::fmax(largest, std::fabs(momentum[i]));
    }
    const uint32_t least = least_taken(lanes, largest, [&](uint32_t tried) {
      int count = 0;
      for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
        count += bits(momentum[i]) >= tried ? 1 : 0;
      }
      return count;
    });
    const auto value_of = [&](int64_t a) {
      return [=](int b) -> float& { return momentum[b * h + a]; };
    };
    uint32_t above = 0;
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      above += count_row<kAnyWidth>(least, value_of(a), scratch[a]);
    }
    const uint32_t spare = spare_after(lanes, above);
    for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
      take_row<kAnyWidth>(a, least, spare, value_of(a), scratch, tile);
    }
  }

  template <typename Load, typename Store>
  THINWIRE_DEVICE void transform(const PortableSide& side, const Load& load,
                                 const Store& store) const {
    if (tiles.transformed) return portable_forward(side, load, store);
    for (int i = 0; i < side.n; ++i) store(i, load(i));
  }

  template <typename Lanes>
  THINWIRE_DEVICE void transform_columns(Lanes& lanes, const float* tile, float* scratch) const {
    const int w = tiles.columns.n;
    for (int64_t x = lanes.index(); x < w; x += lanes.count()) {
      const auto element = [&](int y) { return tile[y * tiles.stride() + x]; };
      const auto put = [&](int a, float value) { scratch[a * w + x] = value; };
      transform(tiles.rows, element, put);
    }
  }

  // The bits of the least absolute value that is taken, not 0: all values with greater bits are
  // taken, and of those with the same bits as many as are missing from `kept`; all if fewer than
  // `kept` are nonzero. `largest`: the largest absolute value of the lane. reached(tried): how many
  // of the lane's values have at least the bits `tried`.
  template <typename Lanes, typename Reached>
  THINWIRE_DEVICE uint32_t least_taken(Lanes& lanes, float largest, const Reached& reached) const {
    // `kept` values or more reach `low`, or it is 1; fewer reach `high`.
    uint32_t low = 1, high = bits(lanes.maximum(largest)) + 1;
    uint32_t tried = high > kFirstGuess ? high - kFirstGuess : 0;
    while (high - low > 1) {
      if (tried <= low) tried = low + (high - low) / 2;
      // Whole numbers up to 2^16: exact, in whatever order they are added.
      const auto count = static_cast<int>(lanes.sum(static_cast<float>(reached(tried))));
      if (count == kept) return tried;
      (count > kept ? low : high) = tried;
      tried = low + (high - low) / 2;
    }
    return low;
  }

  // Puts into `counted` how many values of a row are above `least` and how many equal it; returns
  // how many are above.
  template <int kWidth, typename Value>
  THINWIRE_DEVICE uint32_t count_row(uint32_t least, const Value& value, float& counted) const {
    const int w = kWidth == kAnyWidth ? tiles.columns.n : kWidth;
    uint32_t above = 0, equal = 0;
    THINWIRE_DEVICE_UNROLL
    for (int b = 0; b < w; ++b) {
      above += bits(value(b)) > least ? 1 : 0;
      equal += bits(value(b)) == least ? 1 : 0;
    }
    counted = std::bit_cast<float>(above << kShift | equal);
    return above;
  }

  // How many values that equal the least are taken; after it, lanes see what all rows have counted.
  template <typename Lanes>
  THINWIRE_DEVICE uint32_t spare_after(Lanes& lanes, uint32_t above) const {
    const auto all = static_cast<uint32_t>(lanes.sum(static_cast<float>(above)));
    lanes.barrier();
    return static_cast<uint32_t>(kept) - all;
  }

  // Takes from a row, from its lowest slot on, all values above `least` and, over all rows, the
  // first `spare` that equal it.
  template <int kWidth, typename Value>
  THINWIRE_DEVICE void take_row(int64_t a, uint32_t least, uint32_t spare, const Value& value,
                                const float* counted_h, int64_t tile) const {
    const int w = kWidth == kAnyWidth ? tiles.columns.n : kWidth;
    uint32_t above = 0, equal = 0;  // in the rows before
    for (int row = 0; row < a; ++row) {
      const auto counted = std::bit_cast<uint32_t>(counted_h[row]);
      above += counted >> kShift;
      equal += counted & kMask;
    }
    const uint32_t used = equal < spare ? equal : spare;
    uint32_t quota = spare - used;
    int64_t at = tile * kept + above + used;
    THINWIRE_DEVICE_UNROLL
    for (int b = 0; b < w; ++b) {
      float& from = value(b);
      const bool equals = bits(from) == least && quota > 0;
      if (bits(from) <= least && !equals) continue;
      if (equals) --quota;
      slots_Tk[at] = static_cast<uint16_t>(a * w + b);
      values_Tk[at++] = from;
      from = 0;
    }
    if (a == tiles.rows.n - 1) counts_T[tile] = static_cast<uint32_t>(at - tile * kept);
  }

  static constexpr int kAnyWidth = 0;
  static constexpr uint32_t kFirstGuess = 5u << 23;  // a 32nd of the largest value
  static constexpr uint32_t kShift = 9;              // a row has at most 256 values
  static constexpr uint32_t kMask = (1u << kShift) - 1;
};

// Puts what the receivers do not get back where TakeFromTiles took it from.
struct PutIntoTiles {
  static constexpr int kBlockThreads = kTileThreads;

  PortableTiles tiles;
  int kept;
  const uint32_t* counts_T;
  const uint16_t* slots_Tk;
  const float* values_Tk;
  float* momentum_Tn;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    const int64_t count = counts_T[tile];
    for (int64_t i = lanes.index(); i < count; i += lanes.count()) {
      const int64_t slot = slots_Tk[tile * kept + i];
      momentum_Tn[tile * tiles.slots() + tiles.place_of(slot)] = values_Tk[tile * kept + i];
    }
  }
};

enum class TileUpdate : uint8_t { kSign, kSubtract, kStore };

// The mean of what P members sent, slot by slot in member order, its inverse in one of its two
// forms (is_dense), and the update, as in codec::SlotMeans and TileDct::step: params = shrink *
// params - lr * sign(x), or - x; or x itself is stored.
struct StepTiles {
  static constexpr int kBlockThreads = kTileThreads;

  PortableTiles tiles;
  TileUpdate update;
  float shrink;
  float lr;
  bool of_senders;  // mean over senders; else over all P
  int kept;
  int64_t members;       // P
  int64_t count_stride;  // from one member's counts_T to the next's
  int64_t slot_stride;   // from one member's slots and values to the next's
  const uint32_t* counts_PT;
  const uint16_t* slots_PTk;
  const float* values_PTk;
  float* scratch_Tn;
  float* senders_Tn;
  float* params;  // of the tensor

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t tile) const {
    const int h = tiles.rows.n, w = tiles.columns.n;
    float* const sums = scratch_Tn + tile * tiles.slots();
    float* const senders = senders_Tn + tile * tiles.slots();
    sum(lanes, tile, sums, senders);
    // Both of slot a * w + b are at b * h + a.
    const auto mean = [&](int64_t at) {
      const float count = of_senders ? senders[at] : static_cast<float>(members);
      return senders[at] == 0 ? 0.0f : sums[at] * (1.0f / count);
    };
    float* const rows = senders;  // of the inverse, one for each vertical frequency: at x * h + a
    if (tiles.transformed) {
      const bool dense = is_dense(members, entries(tile), tiles.slots());
      for (int64_t a = lanes.index(); a < h; a += lanes.count()) {
        // A row's own values are where the row is put: they are read first.
        along(
            dense, [&](int b) { return mean(b * h + a); },
            [&](int x, float value) { rows[x * h + a] = value; });
      }
      lanes.barrier();
    }
    for (int64_t x = lanes.index(); x < w; x += lanes.count()) {
      float* const to = params + tiles.first(tile) + x;
      const auto update_at = [&](int y, float value) { apply(value, to[y * tiles.stride()]); };
      if (tiles.transformed) {
        portable_inverse(
            tiles.rows, [&](int a) { return rows[x * h + a]; }, update_at);
      } else {
        for (int y = 0; y < h; ++y) update_at(y, mean(x * h + y));
      }
    }
  }

 private:
  template <typename Lanes>
  THINWIRE_DEVICE void sum(Lanes& lanes, int64_t tile, float* sums, float* senders) const {
    for (int64_t i = lanes.index(); i < tiles.slots(); i += lanes.count()) {
      sums[i] = 0;
      senders[i] = 0;
    }
    for (int64_t member = 0; member < members; ++member) {
      lanes.barrier();  // slots of one member are distinct, those of two need not be
      const int64_t count = counts_PT[member * count_stride + tile];
      const int64_t first = member * slot_stride + tile * kept;
      for (int64_t i = lanes.index(); i < count; i += lanes.count()) {
        const int64_t at = tiles.place_of(slots_PTk[first + i]);
        sums[at] = sums[at] + values_PTk[first + i];
        senders[at] = senders[at] + 1.0f;
      }
    }
    lanes.barrier();
  }

  // How many all members together sent.
  THINWIRE_DEVICE int64_t entries(int64_t tile) const {
    int64_t count = 0;
    for (int64_t member = 0; member < members; ++member) {
      count += counts_PT[member * count_stride + tile];
    }
    return count;
  }

  // Gives the elements of a row whose coefficients are mean(0) ... mean(w - 1) to store(x, value),
  // once it has them all.
  template <typename Mean, typename Store>
  THINWIRE_DEVICE void along(bool dense, const Mean& mean, const Store& store) const {
    if (dense) return portable_inverse(tiles.columns, mean, store);
    if (tiles.columns.n == kTileThreads) return along_sparse<kTileThreads>(mean, store);
    along_sparse<kMaxTileSide>(mean, store);
  }

  // In a tile that is not dense, entries that nobody sent are zeros and change no sum. There are
  // few others, so the loop over them is not unrolled: its code would not fit a GPU's caches.
  template <int N, typename Mean, typename Store>
  THINWIRE_DEVICE void along_sparse(const Mean& mean, const Store& store) const {
    const int w = N == kTileThreads ? N : tiles.columns.n;
    float row[N];
    THINWIRE_DEVICE_UNROLL
    for (int x = 0; x < w; ++x) row[x] = 0;
    THINWIRE_DEVICE_NO_UNROLL
    for (int b = 0; b < w; ++b) {
      const float sent = mean(b);
      if (sent == 0) continue;
      const float* const basis = tiles.columns.basis + b * tiles.columns.stride;
      THINWIRE_DEVICE_UNROLL
      for (int x = 0; x < w; ++x) row[x] = row[x] + sent * basis[x];
    }
    THINWIRE_DEVICE_UNROLL
    for (int x = 0; x < w; ++x) store(x, row[x]);
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
