// Matrix products C = op(A) op(B) + beta C of row-major matrices; op(A) is [m, k], op(B) is [k, n].
// A leading dimension (lda, ldb, ldc) is the distance between rows in memory. With beta 0 the old
// values of C are not read. Sums are fp32; a bf16 C is rounded once at the end (a bf16 product with
// beta != 0 adds to the rounded old value). C must not overlap A or B. The same inputs on the same
// kind of machine give the same bits; other machines may sum in a different order.
//
// The plain functions compute only on the calling thread and may be called from any number of
// threads; the one that takes a ThreadPool splits C into one slab per thread.
#pragma once

#include <cstdint>
#include <optional>

#include "thinwire/base/bf16.h"
#include "thinwire/base/threads.h"

namespace thinwire::tensor {

enum class Transpose : uint8_t { kNo, kYes };

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const float* A, int64_t lda,
          const float* B, int64_t ldb, float beta, float* C, int64_t ldc);
void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, Bf16* C, int64_t ldc);
// bf16 operands, fp32 result: for gradients that accumulate and for logits.
void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
          const Bf16* B, int64_t ldb, float beta, float* C, int64_t ldc);

// Slabs are rows or columns of C, along its longer side.
template <typename In, typename Out>
void gemm(ThreadPool& threads, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          const In* A, int64_t lda, const In* B, int64_t ldb, float beta, Out* C, int64_t ldc);

// The implementations of fp32 products. gemm() uses the first on AMD's CPUs, where it is faster,
// and where there is no BLAS; small products go to the next one.
enum class Fp32Kernel : uint8_t {
  kTiled,   // AVX-512 tiles (tiles_avx512.cpp)
  kBlas,    // LibTorch's BLAS
  kPacked,  // our own kernel for every CPU (gemm_packed.h)
};

// Whether this CPU and the libraries of this build support it.
bool has_fp32_kernel(Fp32Kernel kernel);
// For tests and benchmarks, like use_bf16_kernel_for_test().
void use_fp32_kernel_for_test(std::optional<Fp32Kernel> kernel);
// The implementation that gemm() uses.
Fp32Kernel fp32_kernel();

// The implementations of bf16 products. gemm() uses kOneDnn where the CPU has AMX, otherwise the
// first of the others that is available.
enum class Bf16Kernel : uint8_t {
  kAvx512,   // the CPU's AVX512-BF16 instructions (tiles_avx512.cpp)
  kOneDnn,   // AVX512-BF16 or AMX, through LibTorch's oneDNN
  kWidened,  // fp32 products with LibTorch's BLAS, of operands widened block by block
  kPacked,   // fp32 products with our own kernel (gemm_packed.h)
};

// Whether this CPU and the libraries of this build support it.
bool has_bf16_kernel(Bf16Kernel kernel);

// Whether bf16 products are faster than fp32 ones.
inline bool has_fast_bf16_gemm() {
  return has_bf16_kernel(Bf16Kernel::kAvx512) || has_bf16_kernel(Bf16Kernel::kOneDnn);
}

// For tests: makes gemm() use `kernel`, which must be available; nullopt restores the default. Must
// not be called while products are being computed.
void use_bf16_kernel_for_test(std::optional<Bf16Kernel> kernel);
// The implementation that gemm() uses.
Bf16Kernel bf16_kernel();

}  // namespace thinwire::tensor
