#include "thinwire/tensor/products/gemm.h"

#include <type_traits>

#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/products/gemm_tiled.h"
#include "thinwire/tensor/products/gemm_torch.h"
#include "thinwire/tensor/products/gemm_widened.h"
#include "thinwire/tensor/products/instruction_set.h"

namespace thinwire::tensor {
namespace {

// Slabs begin at multiples of this many rows or columns.
constexpr int64_t kSlabGrain = 16;

std::optional<Fp32Kernel> fp32_kernel_for_test;
std::optional<Bf16Kernel> kernel_for_test;

// The BLAS inside LibTorch is Intel's, which on AMD's CPUs reaches four fifths of what they can do.
bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

Fp32Kernel first_fp32_kernel() {
  const bool tiles = avx512_fp32_tiles() != nullptr;
  if (tiles && (is_amd() || !has_blas())) return Fp32Kernel::kTiled;
  return has_blas() ? Fp32Kernel::kBlas : Fp32Kernel::kPacked;
}

// Whether packing the operands pays.
bool is_large(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kRows = 64, kProducts = 1 << 24;
  return m >= kRows && m * n * k >= kProducts;
}

Bf16Kernel first_bf16_kernel() {
  if (has_amx_bf16() && has_bf16_kernel(Bf16Kernel::kOneDnn)) return Bf16Kernel::kOneDnn;
  for (const auto kernel : {Bf16Kernel::kAvx512, Bf16Kernel::kOneDnn, Bf16Kernel::kWidened}) {
    if (has_bf16_kernel(kernel)) return kernel;
  }
  return Bf16Kernel::kPacked;
}

template <typename Out>
void gemm_bf16(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
               int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) return gemm_packed(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  const Bf16Kernel kernel = bf16_kernel();
  if constexpr (std::is_same_v<Out, Bf16>) {
    // Rounds its fp32 sums once, and is a few per cent faster than adding up tiles.
    if (kernel == Bf16Kernel::kOneDnn && beta == 0) {
      return gemm_onednn(a, b, m, n, k, A, lda, B, ldb, C, ldc);
    }
  }
  if (const Bf16Tiles* const tiles = bf16_tiles()) {
    gemm_tiled(*tiles, a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  } else if (kernel == Bf16Kernel::kWidened) {
    gemm_widened(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
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
  if (kernel == Fp32Kernel::kTiled) return avx512_fp32_tiles() != nullptr;
  return kernel == Fp32Kernel::kPacked || has_blas();
}

void use_fp32_kernel_for_test(std::optional<Fp32Kernel> kernel) { fp32_kernel_for_test = kernel; }

Fp32Kernel fp32_kernel() {
  static const Fp32Kernel first = first_fp32_kernel();
  return fp32_kernel_for_test.value_or(first);
}

bool has_bf16_kernel(Bf16Kernel kernel) {
  switch (kernel) {
    case Bf16Kernel::kAvx512:
      return avx512_bf16_tiles() != nullptr;
    case Bf16Kernel::kOneDnn:
      return onednn_tiles() != nullptr;
    case Bf16Kernel::kWidened:
      return has_blas();
    case Bf16Kernel::kPacked:
      return true;
  }
  return false;
}

const Bf16Tiles* bf16_tiles() {
  const Bf16Kernel kernel = bf16_kernel();
  if (kernel == Bf16Kernel::kAvx512) return avx512_bf16_tiles();
  return kernel == Bf16Kernel::kOneDnn ? onednn_tiles() : nullptr;
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A, int64_t lda,
          const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (fp32_kernel() == Fp32Kernel::kTiled && is_large(m, n, k)) {
    return gemm_tiled(*avx512_fp32_tiles(), a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
  }
  const bool blas = has_blas() && fp32_kernel() != Fp32Kernel::kPacked && k > 0 &&
                    fits_blas(m, n, k, lda, ldb, ldc);
  const auto product = blas ? gemm_blas : gemm_packed<float, float>;
  product(a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
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
