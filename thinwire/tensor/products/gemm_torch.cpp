// The BLAS inside LibTorch: at::mm costs 5 to 10 microseconds per call, more than the small
// products of attention themselves. Its Fortran symbol is weak here, because some wheels do not
// export it.
#include "thinwire/tensor/products/gemm_torch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

// NOLINTBEGIN(readability-identifier-naming): the names of BLAS
extern "C" [[gnu::weak]] void sgemm_(const char* transa, const char* transb, const int* m,
                                     const int* n, const int* k, const float* alpha, const float* A,
                                     const int* lda, const float* B, const int* ldb,
                                     const float* beta, float* C, const int* ldc);
// NOLINTEND(readability-identifier-naming)

namespace thinwire::tensor {

bool has_blas() { return sgemm_ != nullptr; }

bool fits_blas(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  return std::max({m, n, k, lda, ldb, ldc}) <= std::numeric_limits<int>::max();
}

void use_calling_thread_only() {
  thread_local const bool done = [] {
    at::set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

void gemm_blas(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A,
               int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
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

}  // namespace thinwire::tensor
