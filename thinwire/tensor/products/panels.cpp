#include "thinwire/tensor/products/panels.h"

#include <algorithm>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/products/panels.cpp"
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

// Packs rows of pairs. All panels' rows of a pair before the next pair: so long pieces of B's rows
// are read, whose lines the CPU fetches ahead.
void pack_pairs(int64_t pairs, int64_t columns, const uint16_t* B, int64_t ldb, uint16_t* to,
                int64_t panel, int64_t width) {
  for (int64_t i = 0; i < pairs; ++i, B += 2 * ldb, to += 2 * width) {
    uint16_t* out = to;
    for (int64_t j = 0; j < columns; j += width, out += panel) {
      interleave(B + j, B + ldb + j, HWY_MIN(width, columns - j), out);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four pairs of one row, or of as many rows as fit into `Values`, `stride` apart, one row in each
// block of 16 bytes.
template <typename Values>
HWY_INLINE hn::Vec<Values> load_blocks(Values values, const uint16_t* at, int64_t stride) {
  if constexpr (hn::MaxLanes(values) > 8) {
    const hn::Half<Values> half;
    const auto low = load_blocks(half, at, stride);
    return hn::Combine(values, load_blocks(half, at + hn::MaxLanes(values) / 16 * stride, stride),
                       low);
  } else {
    return hn::LoadU(values, at);
  }
}

// transpose_units() of 4 rows for each block of 16 bytes of `Values`, and 4 columns.
template <typename Values>
HWY_INLINE void transpose_block(Values values, const uint16_t* from, int64_t from_stride,
                                uint16_t* to, int64_t to_stride) {
  const hn::Repartition<uint32_t, Values> pairs;
  const hn::Repartition<uint64_t, Values> fours;
  // Row r, and every fourth from there on.
  const auto load = [&](int64_t r) HWY_ATTR {
    return hn::BitCast(pairs, load_blocks(values, from + r * from_stride, 4 * from_stride));
  };
  const auto store = [&](auto vector, int64_t column) HWY_ATTR {
    hn::StoreU(hn::BitCast(values, vector), values, to + column * to_stride);
  };
  const auto row0 = load(0), row1 = load(1), row2 = load(2), row3 = load(3);
  const auto low01 = hn::BitCast(fours, hn::InterleaveLower(pairs, row0, row1));
  const auto low23 = hn::BitCast(fours, hn::InterleaveLower(pairs, row2, row3));
  const auto high01 = hn::BitCast(fours, hn::InterleaveUpper(pairs, row0, row1));
  const auto high23 = hn::BitCast(fours, hn::InterleaveUpper(pairs, row2, row3));
  store(hn::InterleaveLower(fours, low01, low23), 0);
  store(hn::InterleaveUpper(fours, low01, low23), 1);
  store(hn::InterleaveLower(fours, high01, high23), 2);
  store(hn::InterleaveUpper(fours, high01, high23), 3);
}
#endif

// transpose_units() of a few rows.
void transpose_rows(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
                    uint16_t* to, int64_t to_stride) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint16_t, 8> one_block;
#if HWY_TARGET <= HWY_AVX3
  const hn::FixedTag<uint16_t, 32> four_blocks;
#endif
  for (; c + 4 <= columns; c += 4) {
    int64_t r = 0;
#if HWY_TARGET <= HWY_AVX3
    for (; r + 16 <= rows; r += 16) {
      transpose_block(four_blocks, from + r * from_stride + 2 * c, from_stride,
                      to + c * to_stride + 2 * r, to_stride);
    }
#endif
    for (; r + 4 <= rows; r += 4) {
      transpose_block(one_block, from + r * from_stride + 2 * c, from_stride,
                      to + c * to_stride + 2 * r, to_stride);
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

// Transposes units of two halves: to[c, r] = from[r, c]. Strides are in halves.
void transpose_units(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
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

HWY_EXPORT(pack_pairs);
HWY_EXPORT(transpose_units);

namespace {

template <typename In>
const uint16_t* halves(const In* values) {
  return reinterpret_cast<const uint16_t*>(values);
}
template <typename In>
uint16_t* halves(In* values) {
  return reinterpret_cast<uint16_t*>(values);
}

// Calls body(first column, columns, panel) for each panel.
template <typename In, typename Body>
void over_panels(int64_t columns, In* to, int64_t panel, int64_t width, const Body& body) {
  for (int64_t j = 0; j < columns; j += width, to += panel) {
    body(j, std::min(width, columns - j), to);
  }
}

// Whole units of rows.
void pack_rows(int64_t depth, int64_t columns, const float* B, int64_t ldb, float* to,
               int64_t panel, int64_t width) {
  for (int64_t i = 0; i < depth; ++i, B += ldb, to += width) {
    over_panels(columns, to, panel, width,
                [&](int64_t j, int64_t count, float* out) { std::copy_n(B + j, count, out); });
  }
}

void pack_rows(int64_t depth, int64_t columns, const Bf16* B, int64_t ldb, Bf16* to, int64_t panel,
               int64_t width) {
  HWY_DYNAMIC_DISPATCH(pack_pairs)
  (depth / 2, columns, halves(B), ldb, halves(to), panel, width);
}

}  // namespace

template <typename In>
void pack_panels(Transpose transpose, int64_t depth, int64_t columns, const In* B, int64_t ldb,
                 In* to, int64_t panel, int64_t width) {
  const int64_t units = depth / kUnit<In>, whole = units * kUnit<In>;
  if (transpose == Transpose::kNo) {
    pack_rows(whole, columns, B, ldb, to, panel, width);
  } else {
    over_panels(columns, to, panel, width, [&](int64_t j, int64_t count, In* out) {
      HWY_DYNAMIC_DISPATCH(transpose_units)
      (count, units, halves(B + j * ldb), 2 / kUnit<In> * ldb, halves(out), 2 * width);
    });
  }
  if (kUnit<In> == 1 || depth == whole) return;
  over_panels(columns, to, panel, width, [&](int64_t j, int64_t count, In* out) {
    In* const last = out + whole * width;
    for (int64_t c = j; c < j + count; ++c) {
      last[kUnit<In> * (c - j)] =
          B[transpose == Transpose::kNo ? whole * ldb + c : c * ldb + whole];
      last[kUnit<In> * (c - j) + 1] = In();
    }
  });
}
template void pack_panels(Transpose, int64_t, int64_t, const float*, int64_t, float*, int64_t,
                          int64_t);
template void pack_panels(Transpose, int64_t, int64_t, const Bf16*, int64_t, Bf16*, int64_t,
                          int64_t);

void unpack_pairs(int64_t pairs, int64_t columns, const Bf16* from, int64_t from_stride, Bf16* to,
                  int64_t stride) {
  HWY_DYNAMIC_DISPATCH(transpose_units)
  (pairs, columns, halves(from), from_stride, halves(to), stride);
}

void pad_rows(int64_t rows, int64_t depth, const Bf16* A, int64_t lda, Bf16* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(A + r * lda, depth, to + r * stride);
    to[r * stride + depth] = Bf16();
  }
}

}  // namespace thinwire::tensor
#endif
