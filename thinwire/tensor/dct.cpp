#include "thinwire/tensor/dct.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/tensor/dct_tables.h"
#include "thinwire/tensor/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/dct.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "thinwire/tensor/dct_recursions-inl.h"
// clang-format on

#ifndef THINWIRE_TENSOR_DCT_ONCE
#define THINWIRE_TENSOR_DCT_ONCE
namespace thinwire::tensor {

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

}  // namespace thinwire::tensor
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor {
namespace HWY_NAMESPACE {
namespace {

// A pass over rows of `in` that transforms every column of `count` (a multiple of 16).
struct Pass {
  const float* in;
  int64_t in_stride;
  float* out;
  int64_t out_stride;
  int64_t count;
};

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

// The normalised coefficients of kLanes columns, for any N at hand; N = 0: any side.
template <int N>
HWY_INLINE void transform(const DctSide& side, const float* in, int64_t stride, V* HWY_RESTRICT x) {
  const D d;
  THINWIRE_UNROLL(64)
  for (int i = 0; i < N; ++i) x[i] = hn::LoadU(d, in + i * stride);
  dct2<N>(x);
  THINWIRE_UNROLL(64)
  for (int f = 0; f < N; ++f) x[f] = hn::Mul(x[f], hn::Set(d, side.norm[size_t(f)]));
}

template <>
HWY_INLINE void transform<0>(const DctSide& side, const float* in, int64_t stride,
                             V* HWY_RESTRICT x) {
  const D d;
  const int n = side.n;
  const int evens = (n + 1) / 2;
  const int64_t step = padded(n);
  V sums[kMaxSide / 2 + 1];
  V differences[kMaxSide / 2 + 1];
  V out[kMaxSide / 2 + 1];
  for (int k = 0; k < n / 2; ++k) {
    const V v = hn::LoadU(d, in + k * stride);
    const V mirrored = hn::LoadU(d, in + (n - 1 - k) * stride);
    sums[k] = hn::Add(v, mirrored);
    differences[k] = hn::Sub(v, mirrored);
  }
  if (n % 2 != 0) sums[n / 2] = hn::LoadU(d, in + n / 2 * stride);
  matrix_product(side.row(0), 2 * step, 1, sums, evens, out, evens);
  for (int i = 0; i < evens; ++i) x[2 * i] = out[i];
  if (n < 2) return;
  matrix_product(side.row(1), 2 * step, 1, differences, n / 2, out, n / 2);
  for (int i = 0; i < n / 2; ++i) x[2 * i + 1] = out[i];
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

#if HWY_TARGET != HWY_SCALAR
// Stores 128 bits at a time, `stride` apart.
template <class DV>
HWY_INLINE void store_blocks(DV d, hn::Vec<DV> v, float* out, int64_t stride) {
  if constexpr (hn::MaxLanes(DV()) <= 4) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<DV> half;
    constexpr int64_t kBlocks = hn::MaxLanes(half) / 4;
    store_blocks(half, hn::LowerHalf(half, v), out, stride);
    store_blocks(half, hn::UpperHalf(half, v), out + kBlocks * stride, stride);
  }
}
#endif

// out[lane * stride + i] = x[i], four i at a time: up to three behind `count` go along.
HWY_INLINE void store_turned(const V* HWY_RESTRICT x, int count, float* HWY_RESTRICT out,
                             int64_t stride) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < count; ++i) hn::StoreU(x[i], d, out + i);
  (void)stride;
#else
  const hn::Repartition<double, D> d64;
  const auto low = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto high = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  THINWIRE_UNROLL(16)
  for (int i = 0; i < count; i += 4) {
    const V low01 = hn::InterleaveLower(d, x[i], x[i + 1]);
    const V low23 = hn::InterleaveLower(d, x[i + 2], x[i + 3]);
    const V high01 = hn::InterleaveUpper(d, x[i], x[i + 1]);
    const V high23 = hn::InterleaveUpper(d, x[i + 2], x[i + 3]);
    store_blocks(d, low(low01, low23), out + i, 4 * stride);
    store_blocks(d, high(low01, low23), out + stride + i, 4 * stride);
    store_blocks(d, low(high01, high23), out + 2 * stride + i, 4 * stride);
    store_blocks(d, high(high01, high23), out + 3 * stride + i, 4 * stride);
  }
#endif
}

// Begins to bring rows [begin, end) of a tile into the cache.
HWY_INLINE void fetch(const SoonNeeded& soon, int64_t begin, int64_t end, int64_t columns) {
  if (soon.rows == nullptr) return;
  for (int64_t y = begin; y < end; ++y) {
    for (int64_t x = 0; x < columns; x += 16) {
      __builtin_prefetch(soon.rows + y * soon.stride + x, 0, 2);
    }
  }
}

// The first pass: columns of the tile become rows of coefficients, out_stride apart. Meanwhile
// fetches as many elements at `soon`.
template <int N>
void forward_turned(const DctSide& side, const Pass& pass, const float* soon) {
  constexpr int kRoom = N == 0 ? kMaxSide + 3 : N;
  const int n = N == 0 ? side.n : N;
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    fetch({soon, 16}, at * n / 16, (at + kLanes) * n / 16, 16);
    V x[kRoom];
    transform<N>(side, pass.in + at, pass.in_stride, x);
    if constexpr (N == 0) {
      for (int i = n; i < n + 3; ++i) x[i] = hn::Zero(D());
    }
    store_turned(x, n, pass.out + at * pass.out_stride, pass.out_stride);
  }
}

// The second: out = decay * out + gain * coefficients. Meanwhile fetches a tile of `rows`.
template <int N>
void forward_into(const DctSide& side, const Pass& pass, const Blend& blend, int64_t rows,
                  const SoonNeeded& soon) {
  const D d;
  constexpr int kRoom = N == 0 ? kMaxSide : N;
  const int n = N == 0 ? side.n : N;
  const V decay = hn::Set(d, blend.decay);
  const V gain = hn::Set(d, blend.gain);
  for (int64_t at = 0; at < pass.count; at += kLanes) {
    fetch(soon, at, std::min(at + kLanes, rows), n);
    V x[kRoom];
    transform<N>(side, pass.in + at, pass.in_stride, x);
    THINWIRE_UNROLL(64)
    for (int f = 0; f < n; ++f) {
      float* out = pass.out + f * pass.out_stride + at;
      hn::StoreU(hn::Add(hn::Mul(decay, hn::LoadU(d, out)), hn::Mul(gain, x[f])), d, out);
    }
  }
}

// Calls body with the side as a constant, or 0 where there is no recursion for it.
template <class Body>
void for_side(int n, const Body& body) {
  switch (n) {
    case 4:
      return body(std::integral_constant<int, 4>());
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    case 32:
      return body(std::integral_constant<int, 32>());
    case 64:
      return body(std::integral_constant<int, 64>());
    default:
      return body(std::integral_constant<int, 0>());
  }
}

// out = decay * out + gain * in.
void blend_into(const float* HWY_RESTRICT in, int64_t count, const Blend& blend,
                float* HWY_RESTRICT out) {
  const D d;
  const V decay = hn::Set(d, blend.decay);
  const V gain = hn::Set(d, blend.gain);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const V kept = hn::Mul(decay, hn::LoadU(d, out + i));
    hn::StoreU(hn::Add(kept, hn::Mul(gain, hn::LoadU(d, in + i))), d, out + i);
  }
  for (; i < count; ++i) out[i] = blend.decay * out[i] + blend.gain * in[i];
}

void accumulate_tile(const DctTables& tables, const float* tile, int64_t stride, const Blend& blend,
                     float* momentum, float* workspace, const SoonNeeded& soon) {
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t hp = padded(h);
  const int64_t wp = padded(w);
  float* turned = workspace;
  float* other = workspace + hp * wp;
  if (w != wp) {
    for (int y = 0; y < h; ++y) std::copy_n(tile + y * stride, w, other + y * wp);
    tile = other;
    stride = wp;
  }
  for_side(h, [&](auto n) {
    forward_turned<n>(tables.rows, {tile, stride, turned, hp, wp}, momentum);
  });
  if (h == hp) {
    for_side(w, [&](auto n) {
      forward_into<n>(tables.columns, {turned, hp, momentum, hp, hp}, blend, h, soon);
    });
    return;
  }
  // The momentum's rows are shorter than those of the workspace.
  std::fill_n(other, hp * w, 0.0f);
  for_side(w, [&](auto n) {
    forward_into<n>(tables.columns, {turned, hp, other, hp, hp}, {0, 1}, h, soon);
  });
  for (int b = 1; b < w; ++b) std::copy_n(other + b * hp, h, other + b * h);
  blend_into(other, int64_t{h} * w, blend, momentum);
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
                  int64_t count, float* workspace, const SoonNeeded& soon) {
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t wp = padded(w);
  float* along = workspace + padded(h) * wp;
  int64_t begin = 0;
  for (int a = 0; a < h; ++a) {
    fetch(soon, a, a + 1, w);
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

HWY_EXPORT(accumulate_tile);
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

void TileDct::accumulate(const float* tile, int64_t stride, const Blend& blend, float* momentum,
                         float* workspace, const SoonNeeded& soon) const {
  HWY_DYNAMIC_DISPATCH(accumulate_tile)(*tables_, tile, stride, blend, momentum, workspace, soon);
}

const float* TileDct::inverse(std::span<const uint16_t> slots, const float* values,
                              float* workspace, const SoonNeeded& soon) const {
  HWY_DYNAMIC_DISPATCH(inverse_tile)
  (*tables_, slots.data(), values, static_cast<int64_t>(slots.size()), workspace, soon);
  return workspace;
}

}  // namespace thinwire::tensor
#endif
