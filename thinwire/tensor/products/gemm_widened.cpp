#include "thinwire/tensor/products/gemm_widened.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {
namespace {

// Side of blocks of widened bf16 operands and of fp32 sums: a few MB for each thread, large enough
// that the product of two of them pays for the widening.
constexpr int64_t kBlockSide = 1024;
constexpr int64_t kBlockDepth = 384;

struct WidenedBlocks {
  AlignedBuffer<float> a{kBlockSide * kBlockDepth};
  AlignedBuffer<float> b{kBlockSide * kBlockDepth};
  AlignedBuffer<float> sums{kBlockSide * kBlockSide};
};

// Widens rows [row, row + rows) and columns [column, column + columns) of op(matrix) to contiguous
// memory; returns the distance between its lines.
int64_t widen(Transpose transpose, int64_t row, int64_t rows, int64_t column, int64_t columns,
              const Bf16* matrix, int64_t ld, float* to) {
  if (transpose == Transpose::kYes) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  kernels<Bf16>().load_rows(rows, columns, nullptr, matrix + row * ld + column, ld, to, columns);
  return columns;
}

}  // namespace

template <typename Out>
void gemm_widened(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                  int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  thread_local WidenedBlocks blocks;
  float* const block_a = blocks.a.data();
  float* const block_b = blocks.b.data();
  for (int64_t j = 0; j < n; j += kBlockSide) {
    const int64_t columns = std::min(kBlockSide, n - j);
    for (int64_t i = 0; i < m; i += kBlockSide) {
      const int64_t rows = std::min(kBlockSide, m - i);
      Out* const out = C + i * ldc + j;
      float* sums = blocks.sums.data();
      int64_t ld = columns;
      float keep = 0;
      if constexpr (std::is_same_v<Out, float>) {
        sums = out;
        ld = ldc;
        keep = beta;
      }
      for (int64_t from = 0; from < k; from += kBlockDepth) {
        const int64_t depth = std::min(kBlockDepth, k - from);
        const int64_t ld_a = widen(a, i, rows, from, depth, A, lda, block_a);
        const int64_t ld_b = widen(b, from, depth, j, columns, B, ldb, block_b);
        gemm(a, b, rows, columns, depth, block_a, ld_a, block_b, ld_b, from == 0 ? keep : 1.0f,
             sums, ld);
      }
      if constexpr (!std::is_same_v<Out, float>) {
        round_sums(sums, rows, columns, beta, out, ldc);
      }
    }
  }
}

template void gemm_widened(Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*, int64_t,
                           const Bf16*, int64_t, float, float*, int64_t);
template void gemm_widened(Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*, int64_t,
                           const Bf16*, int64_t, float, Bf16*, int64_t);

}  // namespace thinwire::tensor
