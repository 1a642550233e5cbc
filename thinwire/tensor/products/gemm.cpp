#include "thinwire/tensor/products/gemm.h"

#include <type_traits>

#include "thinwire/tensor/products/gemm_packed.h"

namespace thinwire::tensor {
namespace {

// Slabs begin at multiples of this many rows or columns.
constexpr int64_t kSlabGrain = 16;

std::optional<Fp32Kernel> fp32_kernel_for_test;
std::optional<Bf16Kernel> kernel_for_test;

Fp32Kernel first_fp32_kernel() {
  return avx512_fp32_tiles() != nullptr ? Fp32Kernel::kTiled : Fp32Kernel::kPacked;
}

// Whether packing the operands pays.
bool is_large(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kRows = 64, kProducts = 1 << 24;
  return m >= kRows && m * n * k >= kProducts;
}

Bf16Kernel first_bf16_kernel() {
  if (amx_bf16_tiles() != nullptr) return Bf16Kernel::kAmx;
  return avx512_bf16_tiles() != nullptr ? Bf16Kernel::kAvx512 : Bf16Kernel::kPacked;
}

// Null if it has none.
const Bf16Tiles* tiles_of(Bf16Kernel kernel) {
  switch (kernel) {
    case Bf16Kernel::kAmx:
      return amx_bf16_tiles();
    case Bf16Kernel::kAvx512:
      return avx512_bf16_tiles();
    case Bf16Kernel::kPacked:
      break;
  }
  return nullptr;
}

template <typename Out>
void gemm_bf16(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
               int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) return gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  if (const Bf16Tiles* const tiles = bf16_tiles()) {
    gemm_tiled(*tiles, a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  } else {
    gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  }
}

}  // namespace

void use_bf16_kernel_for_test(std::optional<Bf16Kernel> kernel) { kernel_for_test = kernel; }

Bf16Kernel bf16_kernel() {
  static const Bf16Kernel first = first_bf16_kernel();
  return kernel_for_test.value_or(first);
}

bool has_fp32_kernel(Fp32Kernel kernel) {
  return kernel == Fp32Kernel::kPacked || avx512_fp32_tiles() != nullptr;
}

void use_fp32_kernel_for_test(std::optional<Fp32Kernel> kernel) { fp32_kernel_for_test = kernel; }

Fp32Kernel fp32_kernel() {
  static const Fp32Kernel first = first_fp32_kernel();
  return fp32_kernel_for_test.value_or(first);
}

bool has_bf16_kernel(Bf16Kernel kernel) {
  return kernel == Bf16Kernel::kPacked || tiles_of(kernel) != nullptr;
}

const Bf16Tiles* bf16_tiles() { return tiles_of(bf16_kernel()); }

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A, int64_t lda,
          const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (fp32_kernel() == Fp32Kernel::kTiled && is_large(m, n, k)) {
    return gemm_tiled(*avx512_fp32_tiles(), a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  }
  gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, Bf16* C, int64_t ldc) {
  gemm_bf16(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  gemm_bf16(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
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
