#include "thinwire/tensor/products/bf16_pairs.h"

#include <algorithm>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/products/bf16_pairs.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// to[j] = (first[j], second[j]).
void interleave(const uint16_t* first, const uint16_t* second, int64_t count, uint16_t* to) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const hn::Repartition<uint16_t, decltype(d)> both;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; j + lanes <= count; j += lanes) {
    const auto low = hn::PromoteTo(d, hn::LoadU(half, first + j));
    const auto high = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, second + j)));
    hn::StoreU(hn::BitCast(both, hn::Or(low, high)), both, to + 2 * j);
  }
#endif
  for (; j < count; ++j) {
    to[2 * j] = first[j];
    to[2 * j + 1] = second[j];
  }
}

// transpose_pairs() of a few rows.
void transpose_rows(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
                    uint16_t* to, int64_t to_stride) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint16_t, 8> values;
  const hn::Repartition<uint32_t, decltype(values)> pairs;
  const hn::Repartition<uint64_t, decltype(values)> fours;
  const auto load = [&](const uint16_t* at)
                        HWY_ATTR { return hn::BitCast(pairs, hn::LoadU(values, at)); };
  const auto store = [&](auto vector, uint16_t* at)
                         HWY_ATTR { hn::StoreU(hn::BitCast(values, vector), values, at); };
  for (; c + 4 <= columns; c += 4) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const uint16_t* in = from + r * from_stride + 2 * c;
      const auto row0 = load(in), row1 = load(in + from_stride);
      const auto row2 = load(in + 2 * from_stride), row3 = load(in + 3 * from_stride);
      const auto low01 = hn::BitCast(fours, hn::InterleaveLower(pairs, row0, row1));
      const auto low23 = hn::BitCast(fours, hn::InterleaveLower(pairs, row2, row3));
      const auto high01 = hn::BitCast(fours, hn::InterleaveUpper(pairs, row0, row1));
      const auto high23 = hn::BitCast(fours, hn::InterleaveUpper(pairs, row2, row3));
      uint16_t* out = to + c * to_stride + 2 * r;
      store(hn::InterleaveLower(fours, low01, low23), out);
      store(hn::InterleaveUpper(fours, low01, low23), out + to_stride);
      store(hn::InterleaveLower(fours, high01, high23), out + 2 * to_stride);
      store(hn::InterleaveUpper(fours, high01, high23), out + 3 * to_stride);
    }
    for (; r < rows; ++r) {
      for (int64_t i = c; i < c + 4; ++i) {
        std::copy_n(from + r * from_stride + 2 * i, 2, to + i * to_stride + 2 * r);
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * from_stride + 2 * c, 2, to + c * to_stride + 2 * r);
    }
  }
}

// Transposes pairs of values: to[c, r] = from[r, c]. Strides are in values.
void transpose_pairs(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
                     uint16_t* to, int64_t to_stride) {
  // So many rows that lines of `to` are written whole, and so few that those of `from` stay in the
  // L1 cache, where rows a power of two apart share few sets.
  constexpr int64_t kRows = 16;
  for (int64_t r = 0; r < rows; r += kRows) {
    transpose_rows(std::min(kRows, rows - r), columns, from + r * from_stride, from_stride,
                   to + 2 * r, to_stride);
  }
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(interleave);
HWY_EXPORT(transpose_pairs);

namespace {

constexpr int64_t kRow = 2 * kPairColumns;

const uint16_t* bits(const Bf16* values) { return reinterpret_cast<const uint16_t*>(values); }
uint16_t* bits(Bf16* values) { return reinterpret_cast<uint16_t*>(values); }

}  // namespace

void pack_pairs(Transpose transpose, int64_t depth, int64_t columns, const Bf16* B, int64_t ldb,
                Bf16* to, int64_t panel) {
  const int64_t even = depth / 2 * 2;
  // Calls body(first column, columns, panel) for each panel.
  const auto over_panels = [&](const auto& body) {
    for (int64_t j = 0; j < columns; j += kPairColumns) {
      body(j, std::min(kPairColumns, columns - j), bits(to) + j / kPairColumns * panel);
    }
  };
  if (transpose == Transpose::kNo) {
    // Long pieces of rows are read, whose lines the CPU fetches ahead.
    for (int64_t i = 0; i < even; i += 2) {
      const uint16_t* const row = bits(B) + i * ldb;
      over_panels([&](int64_t j, int64_t count, uint16_t* out) {
        HWY_DYNAMIC_DISPATCH(interleave)(row + j, row + ldb + j, count, out + i * kPairColumns);
      });
    }
  } else {
    over_panels([&](int64_t j, int64_t count, uint16_t* out) {
      HWY_DYNAMIC_DISPATCH(transpose_pairs)(count, even / 2, bits(B) + j * ldb, ldb, out, kRow);
    });
  }
  if (depth == even) return;
  over_panels([&](int64_t j, int64_t count, uint16_t* out) {
    uint16_t* const last = out + even * kPairColumns;
    for (int64_t c = j; c < j + count; ++c) {
      const int64_t at = transpose == Transpose::kNo ? even * ldb + c : c * ldb + even;
      last[2 * (c - j)] = bits(B)[at];
      last[2 * (c - j) + 1] = 0;
    }
  });
}

void unpack_pairs(int64_t pairs, int64_t columns, const Bf16* from, int64_t from_stride, Bf16* to,
                  int64_t stride) {
  HWY_DYNAMIC_DISPATCH(transpose_pairs)
  (pairs, columns, bits(from), from_stride, bits(to), stride);
}

void pad_rows(int64_t rows, int64_t depth, const Bf16* A, int64_t lda, Bf16* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(A + r * lda, depth, to + r * stride);
    to[r * stride + depth] = Bf16();
  }
}

}  // namespace thinwire::tensor
#endif
