// The orthonormal discrete cosine transform of tiles, DCT-II along both sides, and its inverse
// (DCT-III). With a_0 = sqrt(1/n) and a_f = sqrt(2/n) the basis of a side of n elements is
//     B[f][x] = a_f cos(pi (2x + 1) f / 2n),        exactly 0 where the angle is an odd pi/2.
//
// Replicas must agree on the inverse to the bit. So the graph of operations depends only on the
// tile's sides: vector lanes run over independent columns, nothing is contracted into FMA, and the
// cosines come from our own double arithmetic. Every instruction set and the plain reference
// (tests/tensor/dct_reference.h) give the same bits.
//
// Graph of one column of n elements, n = 4, 8, 16, 32, 64: the fast and stable recursion of Plonka
// and Tasche (Linear Algebra and its Applications 394, 2005), DCT-II(n) -> DCT-II(n/2) of sums and
// DCT-IV(n/2) of differences of mirrored elements, DCT-IV(n) -> rotations and two DCT-II(n/2), and
// one multiplication by a_f. Any other n: sums and differences of mirrored elements, multiplied by
// the even and odd rows of B, each product sum from low index to high. The inverse of a tile is
// that graph down its columns; before, along its rows, it is the same graph if all coefficients are
// given, and sums of entries times rows of B, by ascending slot, if only some are
// (TileCoefficients).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

struct DctTables;

// out = decay * out + gain * x.
struct Blend {
  float decay = 0;
  float gain = 1;
};

// A parameter p becomes shrink * p - length * sign(x), with sign(0) = 0, where x is its update.
struct SignStep {
  float shrink = 1;
  float length = 0;
};

// The coefficients of a tile, in one of two forms, which give results that differ by rounding.
// Slot a * columns + b belongs to frequencies a (vertical) and b (horizontal).
struct TileCoefficients {
  // Zero except for values[i] at slots[i]; strictly ascending slots.
  std::span<const uint16_t> slots = {};
  const float* values = nullptr;
  // If not null, all of them instead: all[b * rows + a], with 15 more readable floats behind.
  const float* all = nullptr;
};

// Which form is used for the mean of what several members sent of a tile: all coefficients if they
// sent together so many entries that these take longer to add up. Replicas must agree on it.
THINWIRE_DEVICE constexpr bool is_dense(int64_t members, int64_t entries, int64_t slots) {
  return members > 1 && 8 * entries >= slots;
}

// Addresses of the elements that are needed next: they are prefetched into the cache during other
// computation. Hints that change no result; null: none.
struct PrefetchHints {
  const float* values = nullptr;    // tiles or parameters
  const float* momentum = nullptr;  // accumulate only
  int64_t count = 0;
};

// Transforms tiles of one shape. Immutable: threads may share it, each with its own workspace of
// workspace_size() floats aligned to 64 bytes.
class TileDct {
 public:
  // Sides from 1 to 256.
  TileDct(int rows, int columns);
  ~TileDct();
  TileDct(TileDct&&) noexcept;
  TileDct& operator=(TileDct&&) noexcept;

  int64_t workspace_size() const;

  // Blends the coefficients of `tile`, whose rows are `stride` elements apart, into the momentum:
  // momentum[b * rows + a] for frequencies a (vertical) and b (horizontal). It is stored column by
  // column, which saves a transposition.
  void accumulate(const float* tile, int64_t stride, const Blend& blend, float* momentum,
                  float* workspace, const PrefetchHints& prefetch = {}) const;

  // The tile with these coefficients. Returns its rows, row_stride() apart, inside the workspace.
  const float* inverse(const TileCoefficients& coefficients, float* workspace) const;
  int64_t row_stride() const;

  // Steps the tile `params`, rows `stride` apart, by the sign of inverse(coefficients).
  void step(const TileCoefficients& coefficients, const SignStep& step, float* params,
            int64_t stride, float* workspace, const PrefetchHints& prefetch = {}) const;

 private:
  std::unique_ptr<const DctTables> tables_;
};

}  // namespace thinwire::tensor
