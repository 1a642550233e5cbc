// DisTrO's arithmetic on tiles (docs/methods/distro.md), written once for processor and GPU like
// the passes of portable_kernels.h, one call a tile. Every operation is rounded by itself, in the
// graph that dct.h describes, so a GPU's results are those of the processor's vector code to the
// bit: sums over lanes only count.
//
// A tile has h rows and w columns, n = h * w slots; slot a * w + b is the coefficient of vertical
// frequency a and horizontal frequency b. T tiles of one tensor, G of them side by side.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "thinwire/tensor/dct_tables.h"
#include "thinwire/tensor/portable_kernels.h"

namespace thinwire::tensor {

inline constexpr int kMaxTileSide = 256;

// One side of n elements: tables in the memory of the device (DctSide of dct_side.h).
struct PortableSide {
  int n;
  const float* norm;   // a_f
  const float* basis;  // B[f][x] at f * stride + x
  int64_t stride;
  const float* rotations;  // of a DCT-IV of N elements, cosine and sine k at N + 2k and N + 2k + 1
};

inline std::array<float, 64> portable_rotations() {
  std::array<float, 64> rotations{};
  rotations[1] = dct4_cos(1, 0);
  for (int n = 2; n <= 32; n *= 2) {
    for (int k = 0; k < n / 2; ++k) {
      rotations[static_cast<size_t>(n + 2 * k)] = dct4_cos(n, k);
      rotations[static_cast<size_t>(n + 2 * k + 1)] = dct4_sin(n, k);
    }
  }
  return rotations;
}

template <int N>
THINWIRE_DEVICE void portable_dct2(const float* rotations, float* x);

template <int N>
THINWIRE_DEVICE void portable_dct4(const float* rotations, float* v) {
  constexpr int kHalf = N / 2;
  if constexpr (N == 1) {
    v[0] = v[0] * rotations[1];
  } else {
    float a[kHalf], b[kHalf];
    for (int k = 0; k < kHalf; ++k) {
      const float c = rotations[N + 2 * k];
      const float s = rotations[N + 2 * k + 1];
      a[k] = v[k] * c + v[N - 1 - k] * s;
      const float p = v[k] * s;
      const float q = v[N - 1 - k] * c;
      b[k] = k % 2 == 0 ? p - q : q - p;
    }
    portable_dct2<kHalf>(rotations, a);
    portable_dct2<kHalf>(rotations, b);
    v[0] = a[0];
    for (int m = 1; m < kHalf; ++m) {
      v[2 * m] = a[m] - b[kHalf - m];
      v[2 * m - 1] = a[m] + b[kHalf - m];
    }
    v[N - 1] = b[0];
  }
}

template <int N>
THINWIRE_DEVICE void portable_dct2(const float* rotations, float* x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    float sums[kHalf], differences[kHalf];
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = x[k] + x[N - 1 - k];
      differences[k] = x[k] - x[N - 1 - k];
    }
    portable_dct2<kHalf>(rotations, sums);
    portable_dct4<kHalf>(rotations, differences);
    for (int j = 0; j < kHalf; ++j) {
      x[2 * j] = sums[j];
      x[2 * j + 1] = differences[j];
    }
  }
}

template <int N>
THINWIRE_DEVICE void portable_dct3(const float* rotations, float* x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    float even[kHalf], odd[kHalf];
    for (int j = 0; j < kHalf; ++j) {
      even[j] = x[2 * j];
      odd[j] = x[2 * j + 1];
    }
    portable_dct3<kHalf>(rotations, even);
    portable_dct4<kHalf>(rotations, odd);
    for (int k = 0; k < kHalf; ++k) {
      x[k] = even[k] + odd[k];
      x[N - 1 - k] = even[k] - odd[k];
    }
  }
}

// x = the normalised coefficients of x.
THINWIRE_DEVICE inline void portable_forward(const PortableSide& side, float* x) {
  const int n = side.n;
  switch (n) {
    case 4:
      portable_dct2<4>(side.rotations, x);
      break;
    case 8:
      portable_dct2<8>(side.rotations, x);
      break;
    case 16:
      portable_dct2<16>(side.rotations, x);
      break;
    case 32:
      portable_dct2<32>(side.rotations, x);
      break;
    case 64:
      portable_dct2<64>(side.rotations, x);
      break;
    default: {
      float folded[kMaxTileSide];  // sums in front, differences behind
      const int evens = (n + 1) / 2;
      for (int k = 0; k < n / 2; ++k) {
        folded[k] = x[k] + x[n - 1 - k];
        folded[evens + k] = x[k] - x[n - 1 - k];
      }
      if (n % 2 != 0) folded[n / 2] = x[n / 2];
      for (int f = 0; f < n; ++f) {
        const float* const row = side.basis + f * side.stride;
        const float* const in = folded + (f % 2 == 0 ? 0 : evens);
        float sum = row[0] * in[0];
        for (int k = 1; k < (f % 2 == 0 ? evens : n / 2); ++k) sum = sum + row[k] * in[k];
        x[f] = sum;
      }
      return;
    }
  }
  for (int f = 0; f < n; ++f) x[f] = x[f] * side.norm[f];
}

// x = the elements whose normalised coefficients are x.
THINWIRE_DEVICE inline void portable_inverse(const PortableSide& side, float* x) {
  const int n = side.n;
  if (n == 4 || n == 8 || n == 16 || n == 32 || n == 64) {
    for (int f = 0; f < n; ++f) x[f] = x[f] * side.norm[f];
  }
  switch (n) {
    case 4:
      return portable_dct3<4>(side.rotations, x);
    case 8:
      return portable_dct3<8>(side.rotations, x);
    case 16:
      return portable_dct3<16>(side.rotations, x);
    case 32:
      return portable_dct3<32>(side.rotations, x);
    case 64:
      return portable_dct3<64>(side.rotations, x);
    default:
      break;
  }
  float out[kMaxTileSide];
  for (int k = 0; k < (n + 1) / 2; ++k) {
    float even = side.basis[k] * x[0];
    for (int f = 2; f < n; f += 2) even = even + side.basis[f * side.stride + k] * x[f];
    out[k] = even;
    if (k == n - 1 - k) continue;
    float odd = side.basis[side.stride + k] * x[1];
    for (int f = 3; f < n; f += 2) odd = odd + side.basis[f * side.stride + k] * x[f];
    out[k] = even + odd;
    out[n - 1 - k] = even - odd;
  }
  for (int k = 0; k < n; ++k) x[k] = out[k];
}

// Where the tiles of one tensor are; a tile's place follows from its index.
struct PortableTiles {
  PortableSide rows;     // h
  PortableSide columns;  // w
  int64_t grid_columns;  // G
  bool transformed;      // false: the tile itself in the place of its coefficients

  THINWIRE_DEVICE int64_t slots() const { return int64_t{rows.n} * columns.n; }
  THINWIRE_DEVICE int64_t stride() const { return grid_columns * columns.n; }
  THINWIRE_DEVICE int64_t first(int64_t tile) const {
    return tile / grid_columns * rows.n * stride() + tile % grid_columns * columns.n;
  }
};

// Momentum update and selection, as TileDct::accumulate and codec::TopK do them: the momentum lies
// tile by tile, each column by column. What is taken becomes zero there.
struct TakeFromTiles {
  PortableTiles tiles;
  float decay;
  float gain;
  int kept;
  const float* gradients;  // of the tensor
  float* momentum_Tn;
  float* scratch_Tn;
  // What was taken; slots and counts are whole numbers.
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

  // Bits of the value that `kept` absolute values reach and no larger one; of the smallest number
  // above zero where fewer are not zero.
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

  // Of row a how many values are above `least` and how many equal it, in the bits of plan[a].
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

  // Makes of the plan where a row's entries begin and how many equal values it may take: those of
  // the lowest slots. Returns how many entries there are.
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

// Puts what the receivers do not get back to where TakeFromTiles took it.
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

// The mean of what P members sent, slot by slot in their order, its inverse, and the update, as
// codec::SlotMeans and TileDct::step do them: params = shrink * params - lr * sign(x), or - x; or
// x itself is stored.
struct StepTiles {
  PortableTiles tiles;
  TileUpdate update;
  float shrink;
  float lr;
  bool of_senders;  // else the mean is over all P
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
      // The row of the inverse that belongs to a vertical frequency takes the place of `senders`.
      for (int64_t a = lanes.index(); a < h; a += lanes.count())
        along(means + a * w, senders + a * w);
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
      lanes.barrier();  // slots of one member differ, those of two need not
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
      means[i] = means[i] / (of_senders ? senders[i] : static_cast<float>(members));
    }
    lanes.barrier();
  }

  // Entries that nobody sent are zeros, which change no sum.
  THINWIRE_DEVICE void along(const float* means, float* row) const {
    const int w = tiles.columns.n;
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
