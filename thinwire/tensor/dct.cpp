#include "thinwire/tensor/dct.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/error.h"
#include "thinwire/tensor/dct_tables.h"
#include "thinwire/tensor/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/dct.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#ifndef THINWIRE_TENSOR_DCT_ONCE
#define THINWIRE_TENSOR_DCT_ONCE
namespace thinwire::tensor {

// Everything of a butterfly in one function, so that it works in registers; sanitized, such a
// function would take minutes to compile.
#if HWY_IS_ASAN || HWY_IS_TSAN
#define THINWIRE_BUTTERFLY HWY_NOINLINE
#define THINWIRE_UNROLL(factor)
#else
#define THINWIRE_BUTTERFLY HWY_INLINE
#define THINWIRE_UNROLL(factor) HWY_UNROLL(factor)
#endif

constexpr int kMaxSide = 256;

// Rows of a workspace are padded to this many elements, a multiple of every vector.
constexpr int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }

// One side of the tiles.
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

struct DctTables {
  DctTables(int tile_rows, int tile_columns) : rows(tile_rows), columns(tile_columns) {}
  DctSide rows;
  DctSide columns;
};

template <int N>
inline constexpr auto kRotations = [] {
  std::array<std::array<float, 2>, N / 2> rotations{};
  for (int k = 0; k < N / 2; ++k) rotations[size_t(k)] = {dct4_cos(N, k), dct4_sin(N, k)};
  return rotations;
}();

}  // namespace thinwire::tensor
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

// The recursions of dct.h, as in dct_reference.cpp, in place, one column a lane.
template <int N>
THINWIRE_BUTTERFLY void dct2(V* HWY_RESTRICT x);

template <int N>
THINWIRE_BUTTERFLY void dct4(V* HWY_RESTRICT v) {
  const D d;
  if constexpr (N == 1) {
    v[0] = hn::Mul(v[0], hn::Set(d, dct4_cos(1, 0)));
    return;
  }
  constexpr int kHalf = N / 2;
  V a[kHalf > 0 ? kHalf : 1];
  V b[kHalf > 0 ? kHalf : 1];
  THINWIRE_UNROLL(32)
  for (int k = 0; k < kHalf; ++k) {
    const V c = hn::Set(d, kRotations<N>[size_t(k)][0]);
    const V s = hn::Set(d, kRotations<N>[size_t(k)][1]);
    a[k] = hn::Add(hn::Mul(v[k], c), hn::Mul(v[N - 1 - k], s));
    const V p = hn::Mul(v[k], s);
    const V q = hn::Mul(v[N - 1 - k], c);
    b[k] = k % 2 == 0 ? hn::Sub(p, q) : hn::Sub(q, p);
  }
  dct2<kHalf>(a);
  dct2<kHalf>(b);
  v[0] = a[0];
  THINWIRE_UNROLL(32)
  for (int m = 1; m < kHalf; ++m) {
    v[2 * m] = hn::Sub(a[m], b[kHalf - m]);
    v[2 * m - 1] = hn::Add(a[m], b[kHalf - m]);
  }
  v[N - 1] = b[0];
}

template <int N>
THINWIRE_BUTTERFLY void dct2(V* HWY_RESTRICT x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    V sums[kHalf];
    V differences[kHalf];
    THINWIRE_UNROLL(32)
    for (int k = 0; k < kHalf; ++k) {
      sums[k] = hn::Add(x[k], x[N - 1 - k]);
      differences[k] = hn::Sub(x[k], x[N - 1 - k]);
    }
    dct2<kHalf>(sums);
    dct4<kHalf>(differences);
    THINWIRE_UNROLL(32)
    for (int j = 0; j < kHalf; ++j) {
      x[2 * j] = sums[j];
      x[2 * j + 1] = differences[j];
    }
  }
}

template <int N>
THINWIRE_BUTTERFLY void dct3(V* HWY_RESTRICT x) {
  if constexpr (N > 1) {
    constexpr int kHalf = N / 2;
    V even[kHalf];
    V odd[kHalf];
    THINWIRE_UNROLL(32)
    for (int j = 0; j < kHalf; ++j) {
      even[j] = x[2 * j];
      odd[j] = x[2 * j + 1];
    }
    dct3<kHalf>(even);
    dct4<kHalf>(odd);
    THINWIRE_UNROLL(32)
    for (int k = 0; k < kHalf; ++k) {
      x[k] = hn::Add(even[k], odd[k]);
      x[N - 1 - k] = hn::Sub(even[k], odd[k]);
    }
  }
}

// A pass over rows of `in` that transforms every column of `count` (a multiple of 16).
struct Pass {
  const float* in;
  int64_t in_stride;
  float* out;
  int64_t out_stride;
  int64_t count;
};

template <int N>
void fast_forward(const DctSide& side, const Pass& pass) {
  const D d;
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    V x[N];
    THINWIRE_UNROLL(64)
    for (int i = 0; i < N; ++i) x[i] = hn::LoadU(d, pass.in + i * pass.in_stride + at);
    dct2<N>(x);
    THINWIRE_UNROLL(64)
    for (int f = 0; f < N; ++f) {
      const V norm = hn::Set(d, side.norm[size_t(f)]);
      hn::StoreU(hn::Mul(x[f], norm), d, pass.out + f * pass.out_stride + at);
    }
  }
}

template <int N>
void fast_inverse(const DctSide& side, const Pass& pass) {
  const D d;
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    V x[N];
    THINWIRE_UNROLL(64)
    for (int f = 0; f < N; ++f) {
      const V norm = hn::Set(d, side.norm[size_t(f)]);
      x[f] = hn::Mul(hn::LoadU(d, pass.in + f * pass.in_stride + at), norm);
    }
    dct3<N>(x);
    THINWIRE_UNROLL(64)
    for (int i = 0; i < N; ++i) hn::StoreU(x[i], d, pass.out + i * pass.out_stride + at);
  }
}

// out[i] = sum over j < terms of table(first + i * step_i, j * step_j) * in[j], for up to four i at
// once so that every in[j] is loaded once for them.
template <int Rows>
HWY_INLINE void products(const float* HWY_RESTRICT table, int64_t step_i, int64_t step_j,
                         const V* HWY_RESTRICT in, int terms, V* HWY_RESTRICT out) {
  const D d;
  HWY_UNROLL(4)
  for (int i = 0; i < Rows; ++i) out[i] = hn::Mul(hn::Set(d, table[i * step_i]), in[0]);
  for (int j = 1; j < terms; ++j) {
    HWY_UNROLL(4)
    for (int i = 0; i < Rows; ++i) {
      const V factor = hn::Set(d, table[i * step_i + j * step_j]);
      out[i] = hn::Add(out[i], hn::Mul(factor, in[j]));
    }
  }
}

HWY_INLINE void matrix_product(const float* table, int64_t step_i, int64_t step_j, const V* in,
                               int terms, V* out, int count) {
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    products<4>(table + i * step_i, step_i, step_j, in, terms, out + i);
  }
  for (; i < count; ++i) products<1>(table + i * step_i, step_i, step_j, in, terms, out + i);
}

void dense_forward(const DctSide& side, const Pass& pass) {
  const D d;
  const int n = side.n;
  const int64_t step = padded(n);
  V sums[kMaxSide / 2 + 1];
  V differences[kMaxSide / 2 + 1];
  V out[kMaxSide / 2 + 1];
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    for (int k = 0; k < n / 2; ++k) {
      const V x = hn::LoadU(d, pass.in + k * pass.in_stride + at);
      const V mirrored = hn::LoadU(d, pass.in + (n - 1 - k) * pass.in_stride + at);
      sums[k] = hn::Add(x, mirrored);
      differences[k] = hn::Sub(x, mirrored);
    }
    if (n % 2 != 0) sums[n / 2] = hn::LoadU(d, pass.in + n / 2 * pass.in_stride + at);
    const int evens = (n + 1) / 2;
    matrix_product(side.row(0), 2 * step, 1, sums, evens, out, evens);
    for (int i = 0; i < evens; ++i) hn::StoreU(out[i], d, pass.out + 2 * i * pass.out_stride + at);
    if (n < 2) continue;
    matrix_product(side.row(1), 2 * step, 1, differences, n / 2, out, n / 2);
    for (int i = 0; i < n / 2; ++i) {
      hn::StoreU(out[i], d, pass.out + (2 * i + 1) * pass.out_stride + at);
    }
  }
}

void dense_inverse(const DctSide& side, const Pass& pass) {
  const D d;
  const int n = side.n;
  const int evens = (n + 1) / 2;
  const int64_t step = padded(n);
  V in[kMaxSide / 2 + 1];
  V even[kMaxSide / 2 + 1];
  V odd[kMaxSide / 2 + 1];
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    for (int i = 0; i < evens; ++i) in[i] = hn::LoadU(d, pass.in + 2 * i * pass.in_stride + at);
    matrix_product(side.row(0), 1, 2 * step, in, evens, even, evens);
    if (n > 1) {
      for (int i = 0; i < n / 2; ++i) {
        in[i] = hn::LoadU(d, pass.in + (2 * i + 1) * pass.in_stride + at);
      }
      matrix_product(side.row(1), 1, 2 * step, in, n / 2, odd, n / 2);
    }
    for (int k = 0; k < n / 2; ++k) {
      hn::StoreU(hn::Add(even[k], odd[k]), d, pass.out + k * pass.out_stride + at);
      hn::StoreU(hn::Sub(even[k], odd[k]), d, pass.out + (n - 1 - k) * pass.out_stride + at);
    }
    if (n % 2 != 0) hn::StoreU(even[n / 2], d, pass.out + n / 2 * pass.out_stride + at);
  }
}

void forward_columns(const DctSide& side, const Pass& pass) {
  switch (side.n) {
    case 4:
      return fast_forward<4>(side, pass);
    case 8:
      return fast_forward<8>(side, pass);
    case 16:
      return fast_forward<16>(side, pass);
    case 32:
      return fast_forward<32>(side, pass);
    case 64:
      return fast_forward<64>(side, pass);
    default:
      return dense_forward(side, pass);
  }
}

void inverse_columns(const DctSide& side, const Pass& pass) {
  switch (side.n) {
    case 4:
      return fast_inverse<4>(side, pass);
    case 8:
      return fast_inverse<8>(side, pass);
    case 16:
      return fast_inverse<16>(side, pass);
    case 32:
      return fast_inverse<32>(side, pass);
    case 64:
      return fast_inverse<64>(side, pass);
    default:
      return dense_inverse(side, pass);
  }
}

// Four by four elements at a time; up to three rows and columns of padding go along.
void transpose(const float* HWY_RESTRICT in, int64_t in_stride, int64_t rows, int64_t columns,
               float* HWY_RESTRICT out, int64_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[c * out_stride + r] = in[r * in_stride + c];
  }
#else
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;
  const auto low = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d4, hn::InterleaveLower(d2, hn::BitCast(d2, a), hn::BitCast(d2, b)));
  };
  const auto high = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d4, hn::InterleaveUpper(d2, hn::BitCast(d2, a), hn::BitCast(d2, b)));
  };
  for (int64_t r = 0; r < rows; r += 4) {
    for (int64_t c = 0; c < columns; c += 4) {
      const float* from = in + r * in_stride + c;
      const auto row0 = hn::LoadU(d4, from);
      const auto row1 = hn::LoadU(d4, from + in_stride);
      const auto row2 = hn::LoadU(d4, from + 2 * in_stride);
      const auto row3 = hn::LoadU(d4, from + 3 * in_stride);
      const auto low01 = hn::InterleaveLower(d4, row0, row1);
      const auto low23 = hn::InterleaveLower(d4, row2, row3);
      const auto high01 = hn::InterleaveUpper(d4, row0, row1);
      const auto high23 = hn::InterleaveUpper(d4, row2, row3);
      float* to = out + c * out_stride + r;
      hn::StoreU(low(low01, low23), d4, to);
      hn::StoreU(high(low01, low23), d4, to + out_stride);
      hn::StoreU(low(high01, high23), d4, to + 2 * out_stride);
      hn::StoreU(high(high01, high23), d4, to + 3 * out_stride);
    }
  }
#endif
}

void forward_tile(const DctTables& tables, const float* tile, int64_t stride, float* coefficients,
                  float* workspace) {
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t hp = padded(h);
  const int64_t wp = padded(w);
  float* first = workspace;
  float* second = workspace + hp * wp;
  if (w != wp) {
    for (int y = 0; y < h; ++y) std::copy_n(tile + y * stride, w, second + y * wp);
    tile = second;
    stride = wp;
  }
  forward_columns(tables.rows, {tile, stride, first, wp, wp});
  transpose(first, wp, h, w, second, hp);
  if (h == hp) {
    forward_columns(tables.columns, {second, hp, coefficients, h, h});
    return;
  }
  forward_columns(tables.columns, {second, hp, first, hp, hp});
  for (int b = 0; b < w; ++b) std::copy_n(first + b * hp, h, coefficients + b * h);
}

// row[at ...] = sum over the entries of one vertical frequency of value * B[b], Vectors at a time.
template <int Vectors>
HWY_INLINE void sparse_row(const DctSide& side, const uint16_t* slots, const float* values,
                           int64_t count, int first_slot, int64_t at, float* row) {
  const D d;
  V sums[Vectors];
  HWY_UNROLL(4)
  for (int i = 0; i < Vectors; ++i) sums[i] = hn::Zero(d);
  for (int64_t entry = 0; entry < count; ++entry) {
    const float* basis = side.row(slots[entry] - first_slot) + at;
    const V value = hn::Set(d, values[entry]);
    HWY_UNROLL(4)
    for (int i = 0; i < Vectors; ++i) {
      sums[i] = hn::Add(sums[i], hn::Mul(value, hn::LoadU(d, basis + i * kLanes)));
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < Vectors; ++i) hn::StoreU(sums[i], d, row + at + i * kLanes);
}

void inverse_tile(const DctTables& tables, const uint16_t* slots, const float* values,
                  int64_t count, float* workspace) {
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t wp = padded(w);
  float* along = workspace + padded(h) * wp;
  int64_t begin = 0;
  for (int a = 0; a < h; ++a) {
    int64_t end = begin;
    while (end < count && slots[end] < (a + 1) * w) ++end;
    int64_t at = 0;
    for (; at + 4 * kLanes <= wp; at += 4 * kLanes) {
      sparse_row<4>(tables.columns, slots + begin, values + begin, end - begin, a * w, at,
                    along + a * wp);
    }
    for (; at < wp; at += kLanes) {
      sparse_row<1>(tables.columns, slots + begin, values + begin, end - begin, a * w, at,
                    along + a * wp);
    }
    begin = end;
  }
  inverse_columns(tables.rows, {along, wp, workspace, wp, wp});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(forward_tile);
HWY_EXPORT(inverse_tile);

TileDct::TileDct(int rows, int columns) {
  if (rows < 1 || columns < 1 || rows > kMaxSide || columns > kMaxSide) {
    throw Error("the sides of a transformed tile must be from 1 to 256");
  }
  tables_ = std::make_unique<const DctTables>(rows, columns);
}

TileDct::~TileDct() = default;
TileDct::TileDct(TileDct&&) noexcept = default;
TileDct& TileDct::operator=(TileDct&&) noexcept = default;

int64_t TileDct::workspace_size() const {
  return 2 * padded(tables_->rows.n) * padded(tables_->columns.n);
}

int64_t TileDct::row_stride() const { return padded(tables_->columns.n); }

void TileDct::forward(const float* tile, int64_t stride, float* coefficients,
                      float* workspace) const {
  HWY_DYNAMIC_DISPATCH(forward_tile)(*tables_, tile, stride, coefficients, workspace);
}

const float* TileDct::inverse(std::span<const uint16_t> slots, const float* values,
                              float* workspace) const {
  HWY_DYNAMIC_DISPATCH(inverse_tile)
  (*tables_, slots.data(), values, static_cast<int64_t>(slots.size()), workspace);
  return workspace;
}

}  // namespace thinwire::tensor
#endif
