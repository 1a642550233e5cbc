#include "thinwire/tensor/dct/dct.h"

#include <algorithm>
#include <type_traits>

#include "thinwire/base/error.h"
#include "thinwire/tensor/dct/dct_tables.h"
#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/dct/dct.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "thinwire/tensor/dct/dct_passes-inl.h"
// clang-format on

#ifndef THINWIRE_TENSOR_DCT_ONCE
#define THINWIRE_TENSOR_DCT_ONCE
namespace thinwire::tensor {

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

void accumulate_tile(const DctTables& tables, const float* tile, int64_t stride, const Blend& blend,
                     float* momentum, float* workspace, const PrefetchHints& prefetch) {
  const D d;
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t hp = padded(h);
  const int64_t wp = padded(w);
  float* turned = workspace;
  if (w != wp) {
    float* copy = workspace + hp * wp;
    for (int y = 0; y < h; ++y) std::copy_n(tile + y * stride, w, copy + y * wp);
    tile = copy;
    stride = wp;
  }
  // Columns become rows of coefficients, which are stored in whole groups.
  Fetcher momentum_fetcher(prefetch.momentum, prefetch.count, wp / kLanes * calls_of(h));
  for_side(h, [&](auto n) HWY_ATTR {
    for (int64_t at = 0; at < wp; at += kLanes) {
      forward<n>(tables.rows, tile + at, stride, momentum_fetcher, [&](int f, V* x) HWY_ATTR {
        store_turned<group_of(n)>(x, turned + at * hp + f, hp);
      });
    }
  });
  const V decay = hn::Set(d, blend.decay);
  const V gain = hn::Set(d, blend.gain);
  Fetcher values_fetcher(prefetch.values, prefetch.count, (h + kLanes - 1) / kLanes * calls_of(w));
  for_side(w, [&](auto n) HWY_ATTR {
    for_columns(h, [&](int64_t at, auto lanes) HWY_ATTR {
      forward<n>(tables.columns, turned + at, hp, values_fetcher, [&](int f, V* x) HWY_ATTR {
        const int count = n > 0 ? group_of(n) : std::min(16, w - f);
        float* out = momentum + int64_t{f} * h + at;
        THINWIRE_UNROLL(16)
        for (int i = 0; i < count; ++i, out += h) {
          lanes.store(hn::Add(hn::Mul(decay, lanes.load(out)), hn::Mul(gain, x[i])), out);
        }
      });
    });
  });
}

// row[0 ... Vectors * kLanes) = sum of value * B[b] over the entries from `entry` on whose slots
// are below `end`; returns the entry after them. `basis` begins at the first column of the row.
template <int Vectors>
HWY_INLINE int64_t sum_row(const DctSide& side, const TileCoefficients& sent, int64_t entry,
                           int end, const float* basis, float* row) {
  const D d;
  V sums[Vectors];
  THINWIRE_UNROLL(8)
  for (int i = 0; i < Vectors; ++i) sums[i] = hn::Zero(d);
  const int first = end - side.n;
  const int64_t count = std::ssize(sent.slots);
  for (; entry < count && sent.slots[size_t(entry)] < end; ++entry) {
    const float* at = basis + (sent.slots[size_t(entry)] - first) * padded(side.n);
    const V value = hn::Set(d, sent.values[entry]);
    THINWIRE_UNROLL(8)
    for (int i = 0; i < Vectors; ++i) {
      sums[i] = hn::Add(sums[i], hn::Mul(value, hn::LoadU(d, at + i * kLanes)));
    }
  }
  THINWIRE_UNROLL(8)
  for (int i = 0; i < Vectors; ++i) hn::StoreU(sums[i], d, row + i * kLanes);
  return entry;
}

template <int Vectors>
void sum_rows(const DctTables& tables, const TileCoefficients& sent, float* along, Fetcher& fetch) {
  const int w = tables.columns.n;
  const int64_t wp = padded(w);
  int64_t begin = 0;
  for (int a = 0; a < tables.rows.n; ++a) {
    int64_t end = begin;
    for (int64_t at = 0; at < wp; at += Vectors * kLanes) {
      end = sum_row<Vectors>(tables.columns, sent, begin, (a + 1) * w, tables.columns.row(0) + at,
                             along + a * wp + at);
    }
    begin = end;
    fetch.more();
  }
}

// The same if most rows have no entry or only one: avoids mispredicting how many come next.
void sum_few(const DctTables& tables, const TileCoefficients& sent, float* along) {
  const D d;
  const auto w = static_cast<uint32_t>(tables.columns.n);
  const int64_t wp = padded(w);
  for (int64_t i = 0; i < tables.rows.n * wp; i += kLanes) hn::StoreU(hn::Zero(d), d, along + i);
  const uint64_t reciprocal = ((uint64_t{1} << 24) + w - 1) / w;  // exact for slots below 2^16
  for (size_t entry = 0; entry < sent.slots.size(); ++entry) {
    const uint32_t slot = sent.slots[entry];
    const auto a = static_cast<uint32_t>(slot * reciprocal >> 24);
    const float* basis = tables.columns.row(static_cast<int>(slot - a * w));
    const V value = hn::Set(d, sent.values[entry]);
    float* row = along + a * wp;
    for (int64_t at = 0; at < wp; at += kLanes) {
      const V sum = hn::Add(hn::LoadU(d, row + at), hn::Mul(value, hn::LoadU(d, basis + at)));
      hn::StoreU(sum, d, row + at);
    }
  }
}

// The rows of the inverse along the columns from all coefficients. Writes whole vectors of rows.
Fetcher inverse_all_along(const DctTables& tables, const float* all, float* along,
                          const PrefetchHints& prefetch) {
  const int h = tables.rows.n;
  const int w = tables.columns.n;
  const int64_t wp = padded(w);
  Fetcher fetch(prefetch.values, prefetch.count,
                padded(h) / kLanes * calls_of(w) + wp / kLanes * calls_of(h));
  for_side(w, [&](auto n) HWY_ATTR {
    constexpr int kGroup = group_of(n);
    V x[n > 0 ? n : kMaxTileSide + 15];
    for (int64_t at = 0; at < padded(h); at += kLanes) {
      inverse<n>(tables.columns, all + at, h, fetch, [&](int i, V v) HWY_ATTR { x[i] = v; });
      if constexpr (n == 0) {
        for (int i = w; i < w + 15; ++i) x[i] = hn::Zero(D());
      }
      for (int i = 0; i < w; i += kGroup) store_turned<kGroup>(x + i, along + at * wp + i, wp);
    }
  });
  return fetch;
}

// Computes the rows of the inverse along the columns, as long as in the workspace; returns the
// fetcher, whose remaining calls of more() are for the inverse down the rows.
Fetcher inverse_along(const DctTables& tables, const TileCoefficients& sent, float* along,
                      const PrefetchHints& prefetch) {
  if (sent.all != nullptr) return inverse_all_along(tables, sent.all, along, prefetch);
  const int64_t vectors = padded(tables.columns.n) / kLanes;
  const int64_t down = vectors * calls_of(tables.rows.n);
  if (std::ssize(sent.slots) <= 2 * tables.rows.n) {
    sum_few(tables, sent, along);
    return {prefetch.values, prefetch.count, down};
  }
  Fetcher fetch(prefetch.values, prefetch.count, tables.rows.n + down);
  if (vectors % 8 == 0) {
    sum_rows<8>(tables, sent, along, fetch);
  } else if (vectors % 4 == 0) {
    sum_rows<4>(tables, sent, along, fetch);
  } else if (vectors % 3 == 0) {
    sum_rows<3>(tables, sent, along, fetch);
  } else {
    sum_rows<1>(tables, sent, along, fetch);
  }
  return fetch;
}

void inverse_tile(const DctTables& tables, const TileCoefficients& sent, float* workspace) {
  const int64_t wp = padded(tables.columns.n);
  float* along = workspace + padded(tables.rows.n) * wp;
  Fetcher fetch = inverse_along(tables, sent, along, {});
  for_side(tables.rows.n, [&](auto n) HWY_ATTR {
    for (int64_t at = 0; at < wp; at += kLanes) {
      inverse<n>(tables.rows, along + at, wp, fetch,
                 [&](int i, V x) HWY_ATTR { hn::StoreU(x, D(), workspace + i * wp + at); });
    }
  });
}

void step_tile(const DctTables& tables, const TileCoefficients& sent, const SignStep& step,
               float* params, int64_t stride, float* workspace, const PrefetchHints& prefetch) {
  const D d;
  const int w = tables.columns.n;
  const int64_t wp = padded(w);
  Fetcher fetch = inverse_along(tables, sent, workspace, prefetch);
  const V shrink = hn::Set(d, step.shrink);
  const V up = hn::Set(d, step.length);
  const V down = hn::Neg(up);
  for_side(tables.rows.n, [&](auto n) HWY_ATTR {
    for_columns(w, [&](int64_t at, auto lanes) HWY_ATTR {
      inverse<n>(tables.rows, workspace + at, wp, fetch, [&](int i, V x) HWY_ATTR {
        float* p = params + i * stride + at;
        const V zero = hn::Zero(d);
        const V not_down = hn::IfThenElseZero(hn::Gt(x, zero), up);
        const V change = hn::IfThenElse(hn::Lt(x, zero), down, not_down);
        lanes.store(hn::Sub(hn::Mul(lanes.load(p), shrink), change), p);
      });
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(accumulate_tile);
HWY_EXPORT(inverse_tile);
HWY_EXPORT(step_tile);

TileDct::TileDct(int rows, int columns) {
  if (rows < 1 || columns < 1 || rows > kMaxTileSide || columns > kMaxTileSide) {
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
                         float* workspace, const PrefetchHints& prefetch) const {
  HWY_DYNAMIC_DISPATCH(accumulate_tile)
  (*tables_, tile, stride, blend, momentum, workspace, prefetch);
}

const float* TileDct::inverse(const TileCoefficients& coefficients, float* workspace) const {
  HWY_DYNAMIC_DISPATCH(inverse_tile)(*tables_, coefficients, workspace);
  return workspace;
}

void TileDct::step(const TileCoefficients& coefficients, const SignStep& step, float* params,
                   int64_t stride, float* workspace, const PrefetchHints& prefetch) const {
  HWY_DYNAMIC_DISPATCH(step_tile)
  (*tables_, coefficients, step, params, stride, workspace, prefetch);
}

}  // namespace thinwire::tensor
#endif
