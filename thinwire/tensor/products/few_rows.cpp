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

// Rows of weights that are read side by side.
inline constexpr int64_t kSideBySide = 4;

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

// Outputs j ... j + Outputs - 1 of Rows rows, the first of which is `row`.
template <int Rows, int Outputs, typename W>
HWY_INLINE void outputs(const FewRows<W>& of, int64_t row, int64_t j) {
  const D d;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const float* const x = of.x + row * of.ldx;
  const W* const w = of.weights + j * of.k;
  V sums[Rows][Outputs];
  HWY_UNROLL(4)
  for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(4)
    for (int o = 0; o < Outputs; ++o) sums[r][o] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kLanes <= of.k; i += kLanes) {
    V in[Rows];
    HWY_UNROLL(4)
    for (int r = 0; r < Rows; ++r) in[r] = load(x + r * of.ldx + i);
    HWY_UNROLL(4)
    for (int o = 0; o < Outputs; ++o) {
      const V weight = load(w + o * of.k + i);
      HWY_UNROLL(4)
      for (int r = 0; r < Rows; ++r) sums[r][o] = hn::MulAdd(in[r], weight, sums[r][o]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int o = 0; o < Outputs; ++o) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][o]));
      for (int64_t rest = i; rest < of.k; ++rest) {
        sum += x[r * of.ldx + rest] * widened(w[o * of.k + rest]);
      }
      of.y[(row + r) * of.ldy + j + o] = sum;
    }
  }
}

template <int Rows, typename W>
void all_outputs(const FewRows<W>& of, int64_t row, int64_t begin, int64_t end) {
  int64_t j = begin;
  for (; j + kSideBySide <= end; j += kSideBySide) outputs<Rows, kSideBySide>(of, row, j);
  for (; j < end; ++j) outputs<Rows, 1>(of, row, j);
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::tensor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {
namespace {

HWY_EXPORT(few_rows_f32);
HWY_EXPORT(few_rows_bf16);

// Of weights that a thread takes at a time: some 10 microseconds of reading.
constexpr int64_t kPieceBytes = int64_t{1} << 17;

template <typename W, typename Kernel>
void share_out(HelperThreads& helpers, int64_t n, const FewRows<W>& of, const Kernel& kernel) {
  if (helpers.size() == 0) return kernel(of, 0, n);
  const int64_t row = of.k * static_cast<int64_t>(sizeof(W));
  const int64_t piece = (kPieceBytes / row / kSideBySide + 1) * kSideBySide;
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

}  // namespace thinwire::tensor
#endif
