// The transforms of dct.h for one column, with the same graph of operations, for kernels that run
// on the CPU and on GPUs (portable_tiles.h).
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/dct/dct_tables.h"
#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

// One side of n elements: tables in the memory of the device (DctSide of dct_tables.h).
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
    THINWIRE_DEVICE_UNROLL
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
    THINWIRE_DEVICE_UNROLL
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
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = x[k] + x[N - 1 - k];
      differences[k] = x[k] - x[N - 1 - k];
    }
    portable_dct2<kHalf>(rotations, sums);
    portable_dct4<kHalf>(rotations, differences);
    THINWIRE_DEVICE_UNROLL
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
    THINWIRE_DEVICE_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      even[j] = x[2 * j];
      odd[j] = x[2 * j + 1];
    }
    portable_dct3<kHalf>(rotations, even);
    portable_dct4<kHalf>(rotations, odd);
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kHalf; ++k) {
      x[k] = even[k] + odd[k];
      x[N - 1 - k] = even[k] - odd[k];
    }
  }
}

// The coefficients of the values load(0) ... load(n - 1), given to store(f, coefficient).
template <int N, typename Load, typename Store>
THINWIRE_DEVICE void portable_forward_of(const PortableSide& side, const Load& load,
                                         const Store& store) {
  float x[N];
  THINWIRE_DEVICE_UNROLL
  for (int k = 0; k < N; ++k) x[k] = load(k);
  portable_dct2<N>(side.rotations, x);
  THINWIRE_DEVICE_UNROLL
  for (int f = 0; f < N; ++f) store(f, x[f] * side.norm[f]);
}

template <typename Load, typename Store>
THINWIRE_DEVICE void portable_forward(const PortableSide& side, const Load& load,
                                      const Store& store) {
  const int n = side.n;
  switch (n) {
    case 4:
      return portable_forward_of<4>(side, load, store);
    case 8:
      return portable_forward_of<8>(side, load, store);
    case 16:
      return portable_forward_of<16>(side, load, store);
    case 32:
      return portable_forward_of<32>(side, load, store);
    case 64:
      return portable_forward_of<64>(side, load, store);
    default:
      break;
  }
  float folded[kMaxTileSide];  // sums first, then differences
  const int evens = (n + 1) / 2;
  for (int k = 0; k < n / 2; ++k) {
    const float a = load(k), b = load(n - 1 - k);
    folded[k] = a + b;
    folded[evens + k] = a - b;
  }
  if (n % 2 != 0) folded[n / 2] = load(n / 2);
  for (int f = 0; f < n; ++f) {
    const float* const row = side.basis + f * side.stride;
    const float* const in = folded + (f % 2 == 0 ? 0 : evens);
    float sum = row[0] * in[0];
    for (int k = 1; k < (f % 2 == 0 ? evens : n / 2); ++k) sum = sum + row[k] * in[k];
    store(f, sum);
  }
}

// The values whose coefficients are load(0) ... load(n - 1), given to store(k, value).
template <int N, typename Load, typename Store>
THINWIRE_DEVICE void portable_inverse_of(const PortableSide& side, const Load& load,
                                         const Store& store) {
  float x[N];
  THINWIRE_DEVICE_UNROLL
  for (int f = 0; f < N; ++f) x[f] = load(f) * side.norm[f];
  portable_dct3<N>(side.rotations, x);
  THINWIRE_DEVICE_UNROLL
  for (int k = 0; k < N; ++k) store(k, x[k]);
}

template <typename Load, typename Store>
THINWIRE_DEVICE void portable_inverse(const PortableSide& side, const Load& load,
                                      const Store& store) {
  const int n = side.n;
  switch (n) {
    case 4:
      return portable_inverse_of<4>(side, load, store);
    case 8:
      return portable_inverse_of<8>(side, load, store);
    case 16:
      return portable_inverse_of<16>(side, load, store);
    case 32:
      return portable_inverse_of<32>(side, load, store);
    case 64:
      return portable_inverse_of<64>(side, load, store);
    default:
      break;
  }
  float x[kMaxTileSide];
  for (int f = 0; f < n; ++f) x[f] = load(f);
  for (int k = 0; k < (n + 1) / 2; ++k) {
    float even = side.basis[k] * x[0];
    for (int f = 2; f < n; f += 2) even = even + side.basis[f * side.stride + k] * x[f];
    if (k == n - 1 - k) {
      store(k, even);
      continue;
    }
    float odd = side.basis[side.stride + k] * x[1];
    for (int f = 3; f < n; f += 2) odd = odd + side.basis[f * side.stride + k] * x[f];
    store(k, even + odd);
    store(n - 1 - k, even - odd);
  }
}

}  // namespace thinwire::tensor
