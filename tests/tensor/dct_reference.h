// The transforms of tensor/dct/dct.h in plain scalar code, one element after another, with the same
// graph of operations and therefore the same bits. The vector code is tested against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/tensor/dct/dct_tables.h"

namespace thinwire::tensor::reference {

using Column = std::vector<float>;

inline Column dct2(const Column& x);

// Y_j = sum of v_k cos(pi (2j + 1)(2k + 1) / 4n), its own inverse up to scale. With
// a_k = v_k cos t + v_(n-1-k) sin t, b_k = v_k sin t - v_(n-1-k) cos t, t = pi (2k + 1) / 4n, and
// A = DCT-II(a), B = DCT-II((-1)^k b) reversed: Y_2m = A_m - B_m, Y_(2m-1) = A_m + B_m.
inline Column dct4(const Column& v) {
  const size_t n = v.size();
  const size_t half = n / 2;
  Column a(half), b(half), y(n);
  for (size_t k = 0; k < half; ++k) {
    const float c = dct4_cos(static_cast<int>(n), static_cast<int>(k));
    const float s = dct4_sin(static_cast<int>(n), static_cast<int>(k));
    a[k] = v[k] * c + v[n - 1 - k] * s;
    const float p = v[k] * s;
    const float q = v[n - 1 - k] * c;
    b[k] = k % 2 == 0 ? p - q : q - p;
  }
  a = dct2(a);
  b = dct2(b);
  y[0] = a[0];
  for (size_t m = 1; m < half; ++m) {
    y[2 * m] = a[m] - b[half - m];
    y[2 * m - 1] = a[m] + b[half - m];
  }
  y[n - 1] = b[0];
  return y;
}

// X_j = sum of x_k cos(pi j (2k + 1) / 2n).
inline Column dct2(const Column& x) {
  const size_t n = x.size();
  if (n == 1) return x;
  const size_t half = n / 2;
  Column sums(half), differences(half), out(n);
  for (size_t k = 0; k < half; ++k) {
    sums[k] = x[k] + x[n - 1 - k];
    differences[k] = x[k] - x[n - 1 - k];
  }
  sums = dct2(sums);
  if (n == 2) {
    differences[0] *= dct4_cos(1, 0);
  } else {
    differences = dct4(differences);
  }
  for (size_t j = 0; j < half; ++j) {
    out[2 * j] = sums[j];
    out[2 * j + 1] = differences[j];
  }
  return out;
}

// x_k = sum of X_j cos(pi j (2k + 1) / 2n): the transpose of dct2.
inline Column dct3(const Column& in) {
  const size_t n = in.size();
  if (n == 1) return in;
  const size_t half = n / 2;
  Column even(half), odd(half), x(n);
  for (size_t j = 0; j < half; ++j) {
    even[j] = in[2 * j];
    odd[j] = in[2 * j + 1];
  }
  even = dct3(even);
  if (n == 2) {
    odd[0] *= dct4_cos(1, 0);
  } else {
    odd = dct4(odd);
  }
  for (size_t k = 0; k < half; ++k) {
    x[k] = even[k] + odd[k];
    x[n - 1 - k] = even[k] - odd[k];
  }
  return x;
}

inline Column full_basis(size_t n) {
  Column basis(n * n);
  for (size_t i = 0; i < n * n; ++i) {
    basis[i] = dct_basis(static_cast<int>(n), static_cast<int>(i / n), static_cast<int>(i % n));
  }
  return basis;
}

// Rows f of B times sums (even f) or differences (odd f) of mirrored elements.
inline Column dense_dct(const Column& x) {
  const size_t n = x.size();
  const Column basis = full_basis(n);
  Column out(n);
  for (size_t f = 0; f < n; ++f) {
    const size_t terms = f % 2 == 0 ? (n + 1) / 2 : n / 2;
    for (size_t k = 0; k < terms; ++k) {
      const float mirrored = x[n - 1 - k];
      const float folded = k == n - 1 - k ? x[k] : f % 2 == 0 ? x[k] + mirrored : x[k] - mirrored;
      const float product = basis[f * n + k] * folded;
      out[f] = k == 0 ? product : out[f] + product;
    }
  }
  return out;
}

inline Column dense_idct(const Column& in) {
  const size_t n = in.size();
  const Column basis = full_basis(n);
  Column x(n);
  for (size_t k = 0; k < (n + 1) / 2; ++k) {
    float even = basis[k] * in[0];
    for (size_t f = 2; f < n; f += 2) even += basis[f * n + k] * in[f];
    if (k == n - 1 - k) {
      x[k] = even;
      continue;
    }
    float odd = basis[n + k] * in[1];
    for (size_t f = 3; f < n; f += 2) odd += basis[f * n + k] * in[f];
    x[k] = even + odd;
    x[n - 1 - k] = even - odd;
  }
  return x;
}

inline void normalise(Column& column) {
  const int n = static_cast<int>(column.size());
  for (int f = 0; f < n; ++f) column[static_cast<size_t>(f)] *= static_cast<float>(dct_norm(n, f));
}

// One column: orthonormal DCT-II and its inverse.
inline Column dct(const Column& column) {
  if (!is_fast_dct_size(static_cast<int>(column.size()))) return dense_dct(column);
  Column out = dct2(column);
  normalise(out);
  return out;
}

inline Column idct(const Column& coefficients) {
  if (!is_fast_dct_size(static_cast<int>(coefficients.size()))) return dense_idct(coefficients);
  Column in = coefficients;
  normalise(in);
  return dct3(in);
}

// What TileDct::accumulate adds for a dense tile (rows `columns` apart), and TileDct::inverse as a
// dense tile: from some coefficients, and from all, column by column.
inline Column tile_dct(std::span<const float> tile, int rows, int columns) {
  const auto h = static_cast<size_t>(rows);
  const auto w = static_cast<size_t>(columns);
  Column down(h * w), out(h * w);
  for (size_t x = 0; x < w; ++x) {
    Column column(h);
    for (size_t y = 0; y < h; ++y) column[y] = tile[y * w + x];
    column = dct(column);
    for (size_t a = 0; a < h; ++a) down[a * w + x] = column[a];
  }
  for (size_t a = 0; a < h; ++a) {
    const auto row = down.begin() + static_cast<std::ptrdiff_t>(a * w);
    const Column line = dct(Column(row, row + columns));
    for (size_t b = 0; b < w; ++b) out[b * h + a] = line[b];
  }
  return out;
}

// The inverse down the columns, from the rows of that along them.
inline Column inverse_down(const Column& along, size_t h, size_t w) {
  Column out(h * w);
  for (size_t x = 0; x < w; ++x) {
    Column column(h);
    for (size_t a = 0; a < h; ++a) column[a] = along[a * w + x];
    column = idct(column);
    for (size_t y = 0; y < h; ++y) out[y * w + x] = column[y];
  }
  return out;
}

inline Column tile_idct(std::span<const uint16_t> slots, const float* values, int rows,
                        int columns) {
  const auto h = static_cast<size_t>(rows);
  const auto w = static_cast<size_t>(columns);
  const Column basis = full_basis(w);
  Column along(h * w);
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t a = slots[i] / w;
    const size_t b = slots[i] % w;
    for (size_t x = 0; x < w; ++x) along[a * w + x] += values[i] * basis[b * w + x];
  }
  return inverse_down(along, h, w);
}

inline Column tile_idct(std::span<const float> all, int rows, int columns) {
  const auto h = static_cast<size_t>(rows);
  const auto w = static_cast<size_t>(columns);
  Column along;
  for (size_t a = 0; a < h; ++a) {
    Column row(w);
    for (size_t b = 0; b < w; ++b) row[b] = all[b * h + a];
    row = idct(row);
    along.insert(along.end(), row.begin(), row.end());
  }
  return inverse_down(along, h, w);
}

}  // namespace thinwire::tensor::reference
