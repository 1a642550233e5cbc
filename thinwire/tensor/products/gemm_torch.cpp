// gemm.h with LibTorch. fp32 goes directly to the BLAS inside LibTorch: at::mm costs 5 to 10
// microseconds per call, more than the small products of attention themselves. The BLAS's Fortran
// symbol is weak here, because some wheels do not export it; then our own kernel computes. bf16
// goes to oneDNN (gemm_native_torch.cpp) if the CPU has bf16 instructions; otherwise it is widened
// block by block and goes to the BLAS, whose own bf16 products are no faster than that.
#include "thinwire/tensor/products/gemm_torch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

// NOLINTBEGIN(readability-identifier-naming): the names of BLAS
extern "C" [[gnu::weak]] void sgemm_(const char* transa, const char* transb, const int* m,
                                     const int* n, const int* k, const float* alpha, const float* A,
                                     const int* lda, const float* B, const int* ldb,
                                     const float* beta, float* C, const int* ldc);
// NOLINTEND(readability-identifier-naming)

namespace thinwire::tensor {
namespace {

bool fits_blas(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  return std::max({m, n, k, lda, ldb, ldc}) <= std::numeric_limits<int>::max();
}

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

// bf16 products with the BLAS's fp32 products, which are faster than our own kernel.
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

template <typename Out>
void gemm_bf16(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
               int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  const Bf16Kernel kernel = k > 0 ? bf16_kernel() : Bf16Kernel::kPacked;
  const auto product = kernel == Bf16Kernel::kNative    ? gemm_bf16_native<Out>
                       : kernel == Bf16Kernel::kWidened ? gemm_widened<Out>
                                                        : gemm_packed<Bf16, Out>;
  product(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

}  // namespace

void use_calling_thread_only() {
  thread_local const bool done = [] {
    at::set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A, int64_t lda,
          const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (sgemm_ == nullptr || k <= 0 || !fits_blas(m, n, k, lda, ldb, ldc)) {
    return gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  }
  use_calling_thread_only();
  // A row-major matrix is its transpose in Fortran's order: C^T = op(B)^T op(A)^T.
  const char left = b == Transpose::kNo ? 'N' : 'T';
  const char right = a == Transpose::kNo ? 'N' : 'T';
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), depth = static_cast<int>(k);
  const int left_ld = static_cast<int>(ldb), right_ld = static_cast<int>(lda);
  const int out_ld = static_cast<int>(ldc);
  const float alpha = 1;
  sgemm_(&left, &right, &rows, &columns, &depth, &alpha, B, &left_ld, A, &right_ld, &beta, C,
         &out_ld);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, Bf16* C, int64_t ldc) {
  gemm_bf16(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  gemm_bf16(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

bool has_bf16_kernel(Bf16Kernel kernel) {
  if (kernel == Bf16Kernel::kNative) return has_native_bf16();
  return kernel == Bf16Kernel::kPacked || sgemm_ != nullptr;
}

}  // namespace thinwire::tensor
