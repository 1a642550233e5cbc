#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

// Slabs begin at multiples of this many rows or columns.
constexpr int64_t kSlabGrain = 16;

std::optional<Bf16Kernel> kernel_for_test;

Bf16Kernel first_bf16_kernel() {
  if (has_bf16_kernel(Bf16Kernel::kNative)) return Bf16Kernel::kNative;
  return has_bf16_kernel(Bf16Kernel::kWidened) ? Bf16Kernel::kWidened : Bf16Kernel::kPacked;
}

}  // namespace

void use_bf16_kernel_for_test(std::optional<Bf16Kernel> kernel) { kernel_for_test = kernel; }

Bf16Kernel bf16_kernel() {
  static const Bf16Kernel first = first_bf16_kernel();
  return kernel_for_test.value_or(first);
}

template <typename In, typename Out>
void gemm(ThreadPool& threads, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          const In* A, int64_t lda, const In* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  if (threads.size() == 1) return gemm(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  // Every thread reads and packs all of one operand, which should be the smaller one.
  if (m >= n) {
    threads.for_ranges(m, kSlabGrain, [&](int64_t begin, int64_t end, int) {
      const In* rows = A + (a == Transpose::kNo ? begin * lda : begin);
      gemm(a, b, end - begin, n, k, rows, lda, B, ldb, beta, C + begin * ldc, ldc);
    });
  } else {
    threads.for_ranges(n, kSlabGrain, [&](int64_t begin, int64_t end, int) {
      const In* columns = B + (b == Transpose::kNo ? begin : begin * ldb);
      gemm(a, b, m, end - begin, k, A, lda, columns, ldb, beta, C + begin, ldc);
    });
  }
}

template void gemm(ThreadPool&, Transpose, Transpose, int64_t, int64_t, int64_t, const float*,
                   int64_t, const float*, int64_t, float, float*, int64_t);
template void gemm(ThreadPool&, Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*,
                   int64_t, const Bf16*, int64_t, float, Bf16*, int64_t);
template void gemm(ThreadPool&, Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*,
                   int64_t, const Bf16*, int64_t, float, float*, int64_t);

}  // namespace thinwire::tensor
