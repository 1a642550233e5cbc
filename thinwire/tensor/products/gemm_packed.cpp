#include "thinwire/tensor/products/gemm_packed.h"

#include <algorithm>
#include <memory>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/products/gemm_packed.cpp"
#include <hwy/foreach_target.h>

#include "thinwire/tensor/kernels/simd-inl.h"

// Once, outside the target namespaces.
#ifndef THINWIRE_TENSOR_GEMM_PACKED_COMMON_
#define THINWIRE_TENSOR_GEMM_PACKED_COMMON_

namespace thinwire::tensor {

// One product with fp32 sums; In is the operands' type.
template <typename In>
struct Product {
  Transpose a, b;
  int64_t m, n, k;
  const In* A;
  int64_t lda;
  const In* B;
  int64_t ldb;
  float beta;
  float* C;
  int64_t ldc;
};

// Blocks: a B panel of kDepth x (two vectors) stays in the L1 cache, an A block of kRows x kDepth
// in the L2 cache.
inline constexpr int64_t kDepth = 256;
inline constexpr int64_t kRows = 144;
inline constexpr int64_t kColumns = 512;
inline constexpr int64_t kMaxTileRows = 12;
inline constexpr int64_t kMaxTileColumns = 32;

struct PackBuffers {
  alignas(64) float a[(kRows + kMaxTileRows) * kDepth];
  alignas(64) float b[(kColumns + kMaxTileColumns) * kDepth];
};

inline PackBuffers& pack_buffers() {
  thread_local const std::unique_ptr<PackBuffers> buffers(new PackBuffers);
  return *buffers;
}

}  // namespace thinwire::tensor

#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kTileRows = 12;  // 24 accumulators of 32 registers
#else
constexpr int64_t kTileRows = 6;  // 12 accumulators of 16 registers
#endif

HWY_INLINE int64_t tile_columns() { return 2 * static_cast<int64_t>(hn::Lanes(D())); }

// Copies `count` elements, widened.
template <typename In>
HWY_INLINE void copy_widened(const In* from, int64_t count, float* to) {
  const D d;
  for_vectors(d, static_cast<size_t>(count), [&](size_t i, auto lanes) HWY_ATTR {
    lanes.store(lanes.load(d, from + i), d, to + i);
  });
}

HWY_INLINE float widened(float value) { return value; }
HWY_INLINE float widened(Bf16 value) { return to_float(value); }

// Packs rows [row, row + rows) and depth [from, from + depth) of op(A) in panels of kTileRows rows,
// with missing rows zero. A panel holds its rows one after another, kDepth apart; for a transposed
// A, where neighbours in memory belong to different rows, it holds kTileRows values for each depth.
template <typename In>
void pack_a(const Product<In>& p, int64_t row, int64_t rows, int64_t from, int64_t depth,
            float* to) {
  for (int64_t first = 0; first < rows; first += kTileRows, to += kTileRows * kDepth) {
    const int64_t present = std::min(kTileRows, rows - first);
    if (p.a == Transpose::kNo) {
      for (int64_t r = 0; r < kTileRows; ++r) {
        float* out = to + r * kDepth;
        if (r < present) {
          copy_widened(p.A + (row + first + r) * p.lda + from, depth, out);
        } else {
          std::fill_n(out, depth, 0.0f);
        }
      }
      continue;
    }
    for (int64_t i = 0; i < depth; ++i) {
      const In* source = p.A + (from + i) * p.lda + row + first;
      float* out = to + i * kTileRows;
      for (int64_t r = 0; r < present; ++r) out[r] = widened(source[r]);
      for (int64_t r = present; r < kTileRows; ++r) out[r] = 0;
    }
  }
}

// Packs depth [from, from + depth) and columns [column, column + columns) of op(B) in panels of two
// vectors of columns: all columns of one depth, then the next depth.
template <typename In>
void pack_b(const Product<In>& p, int64_t from, int64_t depth, int64_t column, int64_t columns,
            float* to) {
  const int64_t width = tile_columns();
  for (int64_t first = 0; first < columns; first += width, to += width * kDepth) {
    const int64_t present = std::min(width, columns - first);
    if (present < width) std::fill_n(to, width * depth, 0.0f);
    if (p.b == Transpose::kNo) {
      for (int64_t i = 0; i < depth; ++i) {
        copy_widened(p.B + (from + i) * p.ldb + column + first, present, to + i * width);
      }
      continue;
    }
    for (int64_t j = 0; j < present; ++j) {
      const In* source = p.B + (column + first + j) * p.ldb + from;
      for (int64_t i = 0; i < depth; ++i) to[i * width + j] = widened(source[i]);
    }
  }
}

// Adds beta * C to a finished tile and stores it; only rows x columns of it exist.
HWY_INLINE void store_tile(const V (&sum)[kTileRows][2], float beta, float* C, int64_t ldc,
                           int64_t rows, int64_t columns) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V scale = hn::Set(d, beta);
  if (rows == kTileRows && columns == 2 * lanes) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      for (int64_t h = 0; h < 2; ++h) {
        float* out = C + r * ldc + h * lanes;
        const V total = beta == 0 ? sum[r][h] : hn::MulAdd(scale, hn::LoadU(d, out), sum[r][h]);
        hn::StoreU(total, d, out);
      }
    }
    return;
  }
  HWY_ALIGN float tile[kTileRows * kMaxTileColumns];
  for (int64_t r = 0; r < kTileRows; ++r) {
    hn::Store(sum[r][0], d, tile + r * kMaxTileColumns);
    hn::StoreU(sum[r][1], d, tile + r * kMaxTileColumns + lanes);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) {
      float& out = C[r * ldc + j];
      out = tile[r * kMaxTileColumns + j] + (beta == 0 ? 0.0f : beta * out);
    }
  }
}

// One tile of kTileRows x two vectors over `depth`.
template <Transpose kA>
HWY_NOINLINE void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                int64_t depth, float beta, float* C, int64_t ldc, int64_t rows,
                                int64_t columns) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[kTileRows][2];
  HWY_UNROLL(12)
  for (int64_t r = 0; r < kTileRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  for (int64_t i = 0; i < depth; ++i) {
    const V b0 = hn::LoadU(d, b + i * 2 * lanes);
    const V b1 = hn::LoadU(d, b + i * 2 * lanes + lanes);
    HWY_UNROLL(12)
    for (int64_t r = 0; r < kTileRows; ++r) {
      const V x = hn::Set(d, kA == Transpose::kNo ? a[r * kDepth + i] : a[i * kTileRows + r]);
      sum[r][0] = hn::MulAdd(x, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(x, b1, sum[r][1]);
    }
  }
  store_tile(sum, beta, C, ldc, rows, columns);
}

// A packed block of A times a packed panel set of B.
template <Transpose kA>
void multiply_block(const PackBuffers& packed, int64_t rows, int64_t columns, int64_t depth,
                    float beta, float* C, int64_t ldc) {
  const int64_t width = tile_columns();
  for (int64_t j = 0; j < columns; j += width) {
    for (int64_t i = 0; i < rows; i += kTileRows) {
      multiply_tile<kA>(packed.a + i * kDepth, packed.b + j * kDepth, depth, beta, C + i * ldc + j,
                        ldc, std::min(kTileRows, rows - i), std::min(width, columns - j));
    }
  }
}

template <typename In>
void multiply(const Product<In>& p) {
  PackBuffers& packed = pack_buffers();
  for (int64_t j = 0; j < p.n; j += kColumns) {
    const int64_t columns = std::min(kColumns, p.n - j);
    for (int64_t from = 0; from < p.k; from += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - from);
      const float beta = from == 0 ? p.beta : 1.0f;
      pack_b(p, from, depth, j, columns, packed.b);
      for (int64_t i = 0; i < p.m; i += kRows) {
        const int64_t rows = std::min(kRows, p.m - i);
        pack_a(p, i, rows, from, depth, packed.a);
        const auto block = p.a == Transpose::kNo ? multiply_block<Transpose::kNo>
                                                 : multiply_block<Transpose::kYes>;
        block(packed, rows, columns, depth, beta, p.C + i * p.ldc + j, p.ldc);
      }
    }
  }
}

void multiply_float(const Product<float>& p) { multiply(p); }
void multiply_bf16(const Product<Bf16>& p) { multiply(p); }

// Rounds a block of fp32 sums, plus beta times the old values, into a bf16 matrix.
void round_block(const float* from, int64_t rows, int64_t columns, float beta, Bf16* to,
                 int64_t ld) {
  const D d;
  const V scale = hn::Set(d, beta);
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = from + r * columns;
    Bf16* out = to + r * ld;
    for_vectors(d, static_cast<size_t>(columns), [&](size_t i, auto lanes) HWY_ATTR {
      V sum = lanes.load(d, in + i);
      if (beta != 0) sum = hn::MulAdd(scale, lanes.load(d, out + i), sum);
      lanes.store(sum, d, out + i);
    });
  }
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {

HWY_EXPORT(multiply_float);
HWY_EXPORT(multiply_bf16);
HWY_EXPORT(round_block);

namespace {

// With depth 0 there is nothing to add: C = beta * C.
void scale_matrix(int64_t m, int64_t n, float beta, float* C, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) C[i * ldc + j] = beta == 0 ? 0.0f : beta * C[i * ldc + j];
  }
}

void multiply(const Product<float>& p) { HWY_DYNAMIC_DISPATCH(multiply_float)(p); }
void multiply(const Product<Bf16>& p) { HWY_DYNAMIC_DISPATCH(multiply_bf16)(p); }

template <typename In>
const In* element(Transpose t, const In* matrix, int64_t ld, int64_t row, int64_t column) {
  return t == Transpose::kNo ? matrix + row * ld + column : matrix + column * ld + row;
}

}  // namespace

void round_sums(const float* sums, int64_t rows, int64_t columns, float beta, Bf16* to,
                int64_t ld) {
  HWY_DYNAMIC_DISPATCH(round_block)(sums, rows, columns, beta, to, ld);
}

template <typename In, typename Out>
void gemm_packed(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const In* A,
                 int64_t lda, const In* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if constexpr (std::is_same_v<Out, float>) {
    if (k <= 0) return scale_matrix(m, n, beta, C, ldc);
    multiply(Product<In>{a, b, m, n, k, A, lda, B, ldb, beta, C, ldc});
  } else {
    // fp32 sums of one block of C at a time, each rounded once.
    constexpr int64_t kBlock = kColumns;
    thread_local const std::unique_ptr<float[]> sums(new float[kBlock * kBlock]);
    for (int64_t i = 0; i < m; i += kBlock) {
      for (int64_t j = 0; j < n; j += kBlock) {
        const int64_t rows = std::min(kBlock, m - i);
        const int64_t columns = std::min(kBlock, n - j);
        gemm_packed<In, float>(a, b, rows, columns, k, element(a, A, lda, i, int64_t{0}), lda,
                               element(b, B, ldb, int64_t{0}, j), ldb, 0.0f, sums.get(), columns);
        round_sums(sums.get(), rows, columns, beta, C + i * ldc + j, ldc);
      }
    }
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(In, Out)                                                            \
  template void gemm_packed(Transpose, Transpose, int64_t, int64_t, int64_t, const In*, int64_t, \
                            const In*, int64_t, float, Out*, int64_t)
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float, float);
THINWIRE_INSTANTIATE(Bf16, Bf16);
THINWIRE_INSTANTIATE(Bf16, float);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::tensor
#endif
