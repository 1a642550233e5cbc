#include "thinwire/tensor/products/few_rows.h"

#include <algorithm>
#include <atomic>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/products/few_rows.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#ifndef THINWIRE_TENSOR_FEW_ROWS_ONCE
#define THINWIRE_TENSOR_FEW_ROWS_ONCE
namespace thinwire::tensor {

// The operands of multiply_few_rows (few_rows.h); rows of x are `ldx` apart, those of y `ldy`.
template <typename W>
struct FewRows {
  int64_t m, k;
  const float* x;
  int64_t ldx;
  const W* weights;
  float* y;
  int64_t ldy;
};

}  // namespace thinwire::tensor
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE V load(const float* from) { return hn::LoadU(D(), from); }

// A bf16 number is the upper half of the fp32 number with its value.
HWY_INLINE V load(const Bf16* from) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

HWY_INLINE float widened(float value) { return value; }
HWY_INLINE float widened(Bf16 value) { return to_float(value); }

// The next vector of a row of weights, times that of each row of x.
template <int Rows, typename W>
HWY_INLINE void add_products(const FewRows<W>& of, const float* x, const W* w, V* sums) {
  const V weight = load(w);
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) sums[r] = hn::MulAdd(load(x + r * of.ldx), weight, sums[r]);
}

// Output j of Rows rows, the first of which is `row`. One row of weights is read at a time: several
// side by side are streams that each end too soon for the processor to read ahead.
template <int Rows, typename W>
HWY_INLINE void output(const FewRows<W>& of, int64_t row, int64_t j) {
  const D d;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  constexpr int64_t kChains = Rows < 4 ? 4 : 2;  // of sums, since an addition takes cycles
  const float* const x = of.x + row * of.ldx;
  const W* const w = of.weights + j * of.k;
  V sums[kChains][Rows];
  for (auto& chain : sums) std::fill_n(chain, Rows, hn::Zero(d));
  int64_t i = 0;
  for (; i + kChains * kLanes <= of.k; i += kChains * kLanes) {
    HWY_UNROLL(4)
    for (int64_t c = 0; c < kChains; ++c) {
      const int64_t at = i + c * kLanes;
      add_products<Rows>(of, x + at, w + at, sums[c]);
    }
  }
  for (; i + kLanes <= of.k; i += kLanes) add_products<Rows>(of, x + i, w + i, sums[0]);
  for (int r = 0; r < Rows; ++r) {
    for (int64_t c = 1; c < kChains; ++c) sums[0][r] = hn::Add(sums[0][r], sums[c][r]);
    float sum = hn::GetLane(hn::SumOfLanes(d, sums[0][r]));
    for (int64_t rest = i; rest < of.k; ++rest) sum += x[r * of.ldx + rest] * widened(w[rest]);
    of.y[(row + r) * of.ldy + j] = sum;
  }
}

template <int Rows, typename W>
void all_outputs(const FewRows<W>& of, int64_t row, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) output<Rows>(of, row, j);
}

template <typename W>
HWY_INLINE void choose_rows(const FewRows<W>& of, int64_t begin, int64_t end) {
  int64_t row = 0;
  for (; row + 4 <= of.m; row += 4) all_outputs<4>(of, row, begin, end);
  for (; row + 2 <= of.m; row += 2) all_outputs<2>(of, row, begin, end);
  for (; row < of.m; ++row) all_outputs<1>(of, row, begin, end);
}

void few_rows_f32(const FewRows<float>& of, int64_t begin, int64_t end) {
  choose_rows(of, begin, end);
}

void few_rows_bf16(const FewRows<Bf16>& of, int64_t begin, int64_t end) {
  choose_rows(of, begin, end);
}

// Column j of one row of x W or more, Vectors of them, of W with `n` rows.
template <int Vectors>
HWY_INLINE void sum_columns(const FewRows<float>& of, int64_t n, bool add, int64_t row, int64_t j) {
  const D d;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const float* const x = of.x + row * of.ldx;
  const float* const w = of.weights + j;
  float* const y = of.y + row * of.ldy + j;
  V sums[Vectors];
  for (int v = 0; v < Vectors; ++v) sums[v] = add ? load(y + v * kLanes) : hn::Zero(d);
  for (int64_t i = 0; i < n; ++i) {
    const V weight = hn::Set(d, x[i]);
    HWY_UNROLL(4)
    for (int v = 0; v < Vectors; ++v) {
      sums[v] = hn::MulAdd(weight, load(w + i * of.k + v * kLanes), sums[v]);
    }
  }
  for (int v = 0; v < Vectors; ++v) hn::StoreU(sums[v], d, y + v * kLanes);
}

void weighted_rows(const FewRows<float>& of, int64_t n, bool add) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  for (int64_t row = 0; row < of.m; ++row) {
    int64_t j = 0;
    for (; j + 4 * kLanes <= of.k; j += 4 * kLanes) sum_columns<4>(of, n, add, row, j);
    for (; j + kLanes <= of.k; j += kLanes) sum_columns<1>(of, n, add, row, j);
    for (; j < of.k; ++j) {
      float* const y = of.y + row * of.ldy + j;
      float sum = add ? *y : 0.0f;
      for (int64_t i = 0; i < n; ++i) sum += of.x[row * of.ldx + i] * of.weights[i * of.k + j];
      *y = sum;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {
namespace {

HWY_EXPORT(few_rows_f32);
HWY_EXPORT(few_rows_bf16);
HWY_EXPORT(weighted_rows);

// The weights that a thread takes at a time: some 10 microseconds of reading.
constexpr int64_t kPieceBytes = int64_t{1} << 17;

template <typename W, typename Kernel>
void share_out(HelperThreads& helpers, int64_t n, const FewRows<W>& of, const Kernel& kernel) {
  if (helpers.size() == 0) return kernel(of, 0, n);
  const int64_t row = of.k * static_cast<int64_t>(sizeof(W));
  const int64_t piece = kPieceBytes / row + 1;
  std::atomic<int64_t> next = 0;
  helpers.share([&] {
    for (int64_t begin = next.fetch_add(piece); begin < n; begin = next.fetch_add(piece)) {
      kernel(of, begin, std::min(begin + piece, n));
    }
  });
}

}  // namespace

void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const float* W, float* y, int64_t ldy) {
  share_out(helpers, n, FewRows<float>{m, k, x, ldx, W, y, ldy},
            HWY_DYNAMIC_DISPATCH(few_rows_f32));
}

void multiply_few_rows(HelperThreads& helpers, int64_t m, int64_t n, int64_t k, const float* x,
                       int64_t ldx, const Bf16* W, float* y, int64_t ldy) {
  share_out(helpers, n, FewRows<Bf16>{m, k, x, ldx, W, y, ldy},
            HWY_DYNAMIC_DISPATCH(few_rows_bf16));
}

void multiply_few_rows(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx, const float* W,
                       float* y, int64_t ldy) {
  HWY_DYNAMIC_DISPATCH(few_rows_f32)({m, k, x, ldx, W, y, ldy}, 0, n);
}

void sum_weighted_rows(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx, const float* W,
                       bool add, float* y, int64_t ldy) {
  HWY_DYNAMIC_DISPATCH(weighted_rows)({m, k, x, ldx, W, y, ldy}, n, add);
}

}  // namespace thinwire::tensor
#endif
