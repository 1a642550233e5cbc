// The transforms of dct.h for one column, with the same graph of operations, for kernels that run
// on the CPU and on GPUs (portable_tiles.h).
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/dct/dct_tables.h"
#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

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

// Replaces x by its normalised coefficients.
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
      float folded[kMaxTileSide];  // sums first, then differences
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

// Replaces the normalised coefficients x by the elements.
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

}  // namespace thinwire::tensor
