// Constants of the transforms in dct.h, shared by the vector code and the plain reference. All come
// from fixed double arithmetic and the correctly rounded square root, so they have the same bits on
// every machine.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/base/block_sizes.h"

namespace thinwire::tensor {

// cos(pi * p / q) for integers p >= 0, q >= 1, error below 1e-15, exact at multiples of pi/2: the
// angle is reduced to [0, pi/4] in integers, where these terms of the Taylor series are enough.
constexpr double cos_pi(int64_t p, int64_t q) {
  p %= 2 * q;
  if (p > q) p = 2 * q - p;
  if (2 * p > q) return -cos_pi(q - p, q);
  const bool sine = 4 * p > q;  // cos(pi p / q) = sin(pi (q - 2p) / 2q)
  const double x =
      3.14159265358979323846 * (sine ? static_cast<double>(q - 2 * p) / static_cast<double>(2 * q)
                                     : static_cast<double>(p) / static_cast<double>(q));
  double term = sine ? x : 1;
  double sum = term;
  for (int i = sine ? 2 : 1; i < 20; i += 2) {
    term *= -x * x / (i * (i + 1));
    sum += term;
  }
  return sum;
}

// a_f of a side of n elements.
inline double dct_norm(int n, int frequency) { return std::sqrt((frequency == 0 ? 1.0 : 2.0) / n); }

// B[f][x] in fp32.
inline float dct_basis(int n, int f, int x) {
  return static_cast<float>(dct_norm(n, f) * cos_pi(int64_t{2 * x + 1} * f, int64_t{2} * n));
}

// Cosine and sine of pi (2k + 1) / 4n: the rotations of a DCT-IV of n elements.
constexpr float dct4_cos(int n, int k) { return static_cast<float>(cos_pi(2 * k + 1, 4 * n)); }
constexpr float dct4_sin(int n, int k) {
  return static_cast<float>(cos_pi(2 * n - (2 * k + 1), 4 * n));
}

// The same for all k below n / 2.
template <int N>
inline constexpr auto kRotations = [] {
  std::array<std::array<float, 2>, N / 2> rotations{};
  for (int k = 0; k < N / 2; ++k) rotations[size_t(k)] = {dct4_cos(N, k), dct4_sin(N, k)};
  return rotations;
}();

// Whether a side of n elements uses the fast recursion.
constexpr bool is_fast_dct_size(int n) { return n == 4 || n == 8 || n == 16 || n == 32 || n == 64; }

// What the transforms of dct.h need to know about one side of the tiles.

// Rows of a workspace are padded to a multiple of 16 elements, which every vector length divides.
constexpr int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }

struct DctSide {
  explicit DctSide(int size) : n(size), norm(static_cast<size_t>(size)) {
    for (int f = 0; f < n; ++f) norm[static_cast<size_t>(f)] = static_cast<float>(dct_norm(n, f));
    basis.resize(static_cast<size_t>(n * padded(n)));
    for (int f = 0; f < n; ++f) {
      for (int x = 0; x < n; ++x)
        basis[static_cast<size_t>(f * padded(n) + x)] = dct_basis(n, f, x);
    }
  }

  const float* row(int frequency) const { return basis.data() + frequency * padded(n); }

  int n;
  std::vector<float> norm;   // a_f
  std::vector<float> basis;  // B, rows padded with zeros
};

}  // namespace thinwire::tensor
