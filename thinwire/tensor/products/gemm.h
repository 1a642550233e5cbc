// Matrix products C = op(A) op(B) + beta C of row-major matrices; op(A) is [m, k], op(B) is [k, n].
// A leading dimension (lda, ldb, ldc) is the distance between rows in memory. With beta 0 the old
// values of C are not read. Sums are fp32; a bf16 C is rounded once at the end (a bf16 product with
// beta != 0 adds to the rounded old value). C must not overlap A or B. The same inputs on the same
// kind of machine give the same bits; other machines may sum in a different order.
//
// The plain functions compute only on the calling thread and may be called from any number of
// threads; the one that takes a ThreadPool splits C into one slab per thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "thinwire/base/half.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/encoded.h"

namespace thinwire::tensor {

// Which instruction sets the kernels use on this machine.

// "AVX-512", and of the others Highway's names: "AVX2", "SSE4", "NEON", ...
std::string_view instruction_set();

// Whether the CPU has these instructions and limit_instructions() allows them.
bool has_avx512();  // with byte and word values and shorter vectors, as all servers have it
bool has_avx512_bf16();
bool has_amx_bf16();

inline constexpr std::array<std::string_view, 2> kInstructionLimits = {"avx2", "avx512"};

// From now on kernels use no newer instructions than those of `limit`, one of kInstructionLimits;
// "avx512" is without bf16 and AMX. To be called before any kernel runs, as a choice that was made
// is kept. Functions that the compiler cloned for several instruction sets, which are not matrix
// products, have no limit. Throws UsageError for any other text.
void limit_instructions(std::string_view limit);

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

// C = A op(W) + beta C where W is made of encoded matrices (tensor/kernels/encoded.h) with the same
// columns, whose rows are one behind another. A has m rows, and C as many. A panel of W at a time
// is decoded to bf16 into a buffer of the thread, so that no matrix is ever decoded as a whole. The
// sums are in the order of those of a product with the decoded W, whatever the number of threads.
void gemm_encoded(ThreadPool& threads, Transpose w, int64_t m, const Bf16* A, int64_t lda,
                  std::span<const EncodedMatrix> W, float beta, Bf16* C, int64_t ldc);

// The implementations of fp32 products. gemm() uses the first where the CPU has it; small products
// go to the other.
enum class Fp32Kernel : uint8_t {
  kTiled,   // AVX-512 (tiles_avx512.cpp)
  kPacked,  // every CPU's instructions (gemm_packed.h)
};

// Whether this CPU supports it.
bool has_fp32_kernel(Fp32Kernel kernel);
// For tests and benchmarks, like use_bf16_kernel_for_test().
void use_fp32_kernel_for_test(std::optional<Fp32Kernel> kernel);
// The implementation that gemm() uses.
Fp32Kernel fp32_kernel();

// The implementations of bf16 products. gemm() uses the first that the CPU has.
enum class Bf16Kernel : uint8_t {
  kAmx,     // AMX's bf16 instructions (tiles_amx.cpp)
  kAvx512,  // AVX512-BF16 (tiles_avx512.cpp)
  kPacked,  // fp32 products of operands that are widened while they are packed (gemm_packed.h)
};

// Whether this CPU supports it.
bool has_bf16_kernel(Bf16Kernel kernel);

// Whether bf16 products are faster than fp32 ones.
inline bool has_fast_bf16_gemm() {
  return has_bf16_kernel(Bf16Kernel::kAvx512) || has_bf16_kernel(Bf16Kernel::kAmx);
}

// For tests: makes gemm() use `kernel`, which must be available; nullopt restores the default. Must
// not be called while products are being computed.
void use_bf16_kernel_for_test(std::optional<Bf16Kernel> kernel);
// The implementation that gemm() uses.
Bf16Kernel bf16_kernel();

// Adds the product of two thin factors to a matrix, with a fixed order of sums: each element's runs
// over the rank in order, and every product is rounded before it is added. So replicas get the same
// bits on every instruction set and with any number of threads.

// W += scale * (B A). Row-major: W is [out, in], B [out, rank], A [rank, in]; rank >= 1 and in >= 1
// follow from the sizes.
void add_factors(std::span<float> w, std::span<const float> a, std::span<const float> b,
                 int64_t rank, float scale, ThreadPool& threads);

}  // namespace thinwire::tensor
