// bf16 products with oneDNN, which uses AVX512-BF16 and AMX. Tiles come from its kernel for one
// block (batch-reduce GEMM), the only one with fp32 results that LibTorch exposes.
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "thinwire/base/scratch.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/products/gemm_torch.h"
#include "thinwire/tensor/products/instruction_set.h"

namespace thinwire::tensor {
namespace {

const at::BFloat16* as_torch(const Bf16* values) {
  return reinterpret_cast<const at::BFloat16*>(values);
}

void multiply(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
              RightPanels<Bf16> B, OldSums old, float* C, int64_t ldc) {
  const int64_t depth = 2 * units;
  if (A.unit != 2) {
    thread_local std::vector<Bf16> rows_of_pairs;
    Bf16* const to = scratch(rows_of_pairs, rows * depth).data();
    unpack_pairs(units, rows, A.values, A.unit, to, depth);
    A = {to, depth, 2};
  }
  if (old.values != nullptr && old.values != C) {
    kernels<float>().load_rows(rows, columns, nullptr, old.values, old.stride, C, ldc);
  }
  const bool add = old.values != nullptr;
  for (int64_t j = 0; j < columns; j += kPanelColumns, B.values += B.panel) {
    at::native::cpublas::brgemm(rows, std::min(kPanelColumns, columns - j), depth, A.row,
                                kPanelColumns, ldc, add, as_torch(A.values), as_torch(B.values),
                                C + j);
  }
}

void multiply_rounded(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
                      RightPanels<Bf16> B, OldSums old, Bf16* C, int64_t ldc) {
  thread_local std::vector<float> buffer;
  float* const sums = scratch(buffer, rows * columns).data();
  multiply(rows, columns, units, A, B, old, sums, columns);
  round_sums(sums, rows, columns, 0, C, ldc);
}

// Until this call AMX stays set up for the last block, on which other products must not rely.
void release() { at::native::cpublas::brgemm_release(); }

constexpr Bf16Tiles kOneDnn = {{multiply, release}, multiply_rounded};

at::Tensor as_matrix(Transpose transpose, int64_t rows, int64_t columns, const Bf16* data,
                     int64_t ld) {
  const bool plain = transpose == Transpose::kNo;
  return at::from_blob(const_cast<Bf16*>(data), {rows, columns},
                       {plain ? ld : int64_t{1}, plain ? int64_t{1} : ld}, at::kBFloat16);
}

// The depth of a tile of AMX. Where the depth of a product is no multiple of it, oneDNN may read on
// behind the end of a row of A and multiply that by 0, which is NaN if it finds NaN or infinity.
constexpr int64_t kTileDepth = 32;

// A's rows, each with zeros behind it, and their distance.
struct PaddedRows {
  const Bf16* values;
  int64_t ld;
};
PaddedRows pad_rows(int64_t m, int64_t k, const Bf16* A, int64_t lda) {
  thread_local std::vector<Bf16> buffer;
  const int64_t ld = (k + kTileDepth - 1) / kTileDepth * kTileDepth;
  Bf16* const to = scratch(buffer, m * ld).data();
  for (int64_t i = 0; i < m; ++i) {
    std::copy_n(A + i * lda, k, to + i * ld);
    std::fill_n(to + i * ld + k, ld - k, Bf16{});
  }
  return {to, ld};
}

// oneDNN refuses to create the kernel if an instruction, or the permission to use it, is missing.
bool multiplies_one_block() {
  const Bf16 a[2] = {to_bf16(2), to_bf16(3)};
  const Bf16 b[2 * kPanelColumns] = {to_bf16(5), to_bf16(7)};
  float c = 0;
  try {
    multiply(1, 1, 1, {a, 2, 2}, {b, 0}, {}, &c, 1);
    release();
  } catch (const std::exception&) {
    return false;
  }
  return c == 31;
}

}  // namespace

void gemm_onednn(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, const Bf16* A,
                 int64_t lda, const Bf16* B, int64_t ldb, Bf16* C, int64_t ldc) {
  use_calling_thread_only();
  const c10::InferenceMode no_autograd;
  if (a == Transpose::kNo && k % kTileDepth != 0) {
    const PaddedRows rows = pad_rows(m, k, A, lda);
    A = rows.values;
    lda = rows.ld;
  }
  at::Tensor out = at::from_blob(C, {m, n}, {ldc, 1}, at::kBFloat16);
  at::mm_out(out, as_matrix(a, m, k, A, lda), as_matrix(b, k, n, B, ldb));
}

const Bf16Tiles* onednn_tiles() {
  static const bool found = has_avx512_bf16() && multiplies_one_block();
  return found ? &kOneDnn : nullptr;
}

}  // namespace thinwire::tensor
