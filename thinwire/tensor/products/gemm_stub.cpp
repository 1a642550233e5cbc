// gemm.h without LibTorch.
#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/products/gemm_packed.h"

namespace thinwire::tensor {

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A, int64_t lda,
          const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, Bf16* C, int64_t ldc) {
  gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

bool has_bf16_kernel(Bf16Kernel kernel) { return kernel == Bf16Kernel::kPacked; }

}  // namespace thinwire::tensor
