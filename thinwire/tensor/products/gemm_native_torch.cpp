// bf16 products with the CPU's bf16 instructions. fp32 results come from oneDNN's kernel for one
// block (batch-reduce GEMM), the only one with fp32 results that LibTorch exposes: we cut, pack and
// add the blocks. bf16 results that do not add to old values come from at::mm, which rounds its
// fp32 sums once and is a few per cent faster.
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <type_traits>

#include "thinwire/tensor/products/bf16_pairs.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/products/gemm_torch.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {
namespace {

// Packed blocks of B and blocks of rows of A stay in the L2 cache together.
constexpr int64_t kDepth = 512;
constexpr int64_t kColumns = 512;
constexpr int64_t kRows = 64;
// For a bf16 result: rows and columns of its fp32 sums formed at a time.
constexpr int64_t kSumSide = 512;
static_assert(kRows <= kPairColumns && kColumns % kPairColumns == 0);

struct Buffers {
  AlignedBuffer<Bf16> b{kDepth * kColumns};
  AlignedBuffer<Bf16> a{kRows * kDepth};
  AlignedBuffer<Bf16> pairs{kDepth * kPairColumns};
};

Buffers& buffers() {
  thread_local Buffers own;
  return own;
}

const at::BFloat16* as_torch(const Bf16* values) {
  return reinterpret_cast<const at::BFloat16*>(values);
}

// C = A B, or C += A B if `add`; B in panels of pairs.
void multiply_block(int64_t rows, int64_t columns, int64_t depth, const Bf16* A, int64_t lda,
                    const Bf16* B, bool add, float* C, int64_t ldc) {
  const int64_t even = (depth + 1) / 2 * 2;
  for (int64_t j = 0; j < columns; j += kPairColumns) {
    at::native::cpublas::brgemm(rows, std::min(kPairColumns, columns - j), even, lda, kPairColumns,
                                ldc, add, as_torch(A), as_torch(B + j * kDepth), C + j);
  }
}

void scale_rows(int64_t rows, int64_t columns, float factor, float* C, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) C[i * ldc + j] *= factor;
  }
}

template <typename T>
T* element(Transpose t, T* matrix, int64_t ld, int64_t row, int64_t column) {
  return t == Transpose::kNo ? matrix + row * ld + column : matrix + column * ld + row;
}

void multiply(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A, int64_t lda,
              const Bf16* B, int64_t ldb, bool add, float* C, int64_t ldc) {
  Buffers& packed = buffers();
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t from = 0; from < k; from += kDepth) {
      const int64_t depth = std::min(kDepth, k - from);
      for (int64_t panel = 0; panel < columns; panel += kPairColumns) {
        pack_pairs(b, depth, std::min(kPairColumns, columns - panel),
                   element(b, B, ldb, from, j + panel), ldb, packed.b.data() + panel * kDepth);
      }
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        const Bf16* block = element(a, A, lda, i, from);
        const bool direct = a == Transpose::kNo && depth % 2 == 0;
        if (!direct) {
          pack_rows(a, rows, depth, block, lda, packed.a.data(), kDepth, packed.pairs.data());
        }
        multiply_block(rows, columns, depth, direct ? block : packed.a.data(),
                       direct ? lda : kDepth, packed.b.data(), add || from > 0, C + i * ldc + j,
                       ldc);
      }
    }
  }
  // Until this call AMX stays set up for the last block, on which other products must not rely.
  at::native::cpublas::brgemm_release();
}

at::Tensor as_matrix(Transpose transpose, int64_t rows, int64_t columns, const Bf16* data,
                     int64_t ld) {
  const bool plain = transpose == Transpose::kNo;
  return at::from_blob(const_cast<Bf16*>(data), {rows, columns},
                       {plain ? ld : int64_t{1}, plain ? int64_t{1} : ld}, at::kBFloat16);
}

// oneDNN refuses to create the kernel if an instruction, or the permission to use it, is missing.
bool multiplies_one_block() {
  const Bf16 a[2] = {to_bf16(2), to_bf16(3)};
  const Bf16 b[2 * kPairColumns] = {to_bf16(5), to_bf16(7)};
  float c = 0;
  try {
    multiply_block(1, 1, 2, a, 2, b, false, &c, 1);
    at::native::cpublas::brgemm_release();
  } catch (const std::exception&) {
    return false;
  }
  return c == 31;
}

}  // namespace

template <typename Out>
void gemm_bf16_native(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                      int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C, int64_t ldc) {
  use_calling_thread_only();
  if constexpr (std::is_same_v<Out, float>) {
    if (beta != 0 && beta != 1) scale_rows(m, n, beta, C, ldc);
    multiply(a, b, m, n, k, A, lda, B, ldb, beta != 0, C, ldc);
  } else if (beta == 0) {
    const c10::InferenceMode no_autograd;
    at::Tensor out = at::from_blob(C, {m, n}, {ldc, 1}, at::kBFloat16);
    at::mm_out(out, as_matrix(a, m, k, A, lda), as_matrix(b, k, n, B, ldb));
  } else {
    thread_local AlignedBuffer<float> sums(kSumSide * kSumSide);
    for (int64_t i = 0; i < m; i += kSumSide) {
      for (int64_t j = 0; j < n; j += kSumSide) {
        const int64_t rows = std::min(kSumSide, m - i), columns = std::min(kSumSide, n - j);
        multiply(a, b, rows, columns, k, element(a, A, lda, i, int64_t{0}), lda,
                 element(b, B, ldb, int64_t{0}, j), ldb, false, sums.data(), columns);
        round_sums(sums.data(), rows, columns, beta, C + i * ldc + j, ldc);
      }
    }
  }
}

template void gemm_bf16_native(Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*,
                               int64_t, const Bf16*, int64_t, float, float*, int64_t);
template void gemm_bf16_native(Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*,
                               int64_t, const Bf16*, int64_t, float, Bf16*, int64_t);

bool has_native_bf16() {
#if defined(__x86_64__)
  static const bool found = __builtin_cpu_supports("avx512bf16") && multiplies_one_block();
  return found;
#else
  return false;
#endif
}

}  // namespace thinwire::tensor
