#include "thinwire/tensor/products/gemm_tiled.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {
namespace {

// A packed block of B and a block of rows of A stay in the L2 cache together. If the result is
// fp32, the block of B is wide, so that A, which may have to be packed, is read fewer times; if it
// is bf16, the block is deep, so that sums rarely wait for the next one.
struct Block {
  int64_t depth, columns;
};
constexpr Block kWide = {512, 512}, kDeep = {1024, 256};
constexpr int64_t kRows = 256;
// Rows whose sums wait, if the result is bf16.
constexpr int64_t kSumRows = 1024;

struct Buffers {
  AlignedBuffer<Bf16> b{kWide.depth * kWide.columns};
  AlignedBuffer<Bf16> a{kRows * kDeep.depth};
  AlignedBuffer<float> sums;  // [kSumRows, columns of kDeep]
};
static_assert(kWide.depth * kWide.columns == kDeep.depth * kDeep.columns);

Buffers& buffers() {
  thread_local Buffers own;
  return own;
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

// One block of rows of op(A) as left operands of kPairColumns rows each: where they are if their
// pairs are neighbours there, or packed.
class LeftOperand {
 public:
  LeftOperand(Transpose a, int64_t rows, int64_t depth, const Bf16* A, int64_t lda, Bf16* packed) {
    if (a == Transpose::kYes) {
      panel_ = (depth + 1) / 2 * 2 * kPairColumns;
      pack_pairs(Transpose::kNo, depth, rows, A, lda, packed, panel_);
      first_ = {packed, 2, 2 * kPairColumns};
    } else if (depth % 2 == 0) {
      panel_ = kPairColumns * lda;
      first_ = {A, lda, 2};
    } else {
      panel_ = kPairColumns * (depth + 1);
      pad_rows(rows, depth, A, lda, packed, depth + 1);
      first_ = {packed, depth + 1, 2};
    }
  }
  PairOperand at(int64_t row) const {
    return {first_.values + row / kPairColumns * panel_, first_.row, first_.pair};
  }

 private:
  PairOperand first_;
  int64_t panel_;
};

void multiply(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
              const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, bool add, float* C,
              int64_t ldc) {
  Buffers& packed = buffers();
  for (int64_t j = 0; j < n; j += kWide.columns) {
    const int64_t columns = std::min(kWide.columns, n - j);
    for (int64_t from = 0; from < k; from += kWide.depth) {
      const int64_t depth = std::min(kWide.depth, k - from);
      const PairPanels right = {packed.b.data(), kPairColumns * kWide.depth};
      pack_pairs(b, depth, columns, element(b, B, ldb, from, j), ldb, packed.b.data(), right.panel);
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        const LeftOperand left(a, rows, depth, element(a, A, lda, i, from), lda, packed.a.data());
        for (int64_t r = 0; r < rows; r += kPairColumns) {
          float* const to = C + (i + r) * ldc + j;
          tiles.multiply(std::min(kPairColumns, rows - r), columns, (depth + 1) / 2, left.at(r),
                         right, add || from > 0 ? OldSums{to, ldc} : OldSums{}, to, ldc);
        }
      }
    }
  }
}

// One block of columns of a bf16 result, of up to kSumRows rows. Sums wait in fp32 until the last
// block of depth.
void multiply_columns(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t columns,
                      int64_t k, const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta,
                      Bf16* C, int64_t ldc) {
  Buffers& packed = buffers();
  if ((k > kDeep.depth || beta != 0) && packed.sums.data() == nullptr) {
    packed.sums = AlignedBuffer<float>(kSumRows * kDeep.columns);
  }
  if (beta != 0) {
    const std::vector<float> factors(static_cast<size_t>(m), beta);
    kernels<Bf16>().load_rows(m, columns, factors.data(), C, ldc, packed.sums.data(),
                              kDeep.columns);
  }
  for (int64_t from = 0; from < k; from += kDeep.depth) {
    const int64_t depth = std::min(kDeep.depth, k - from), pairs = (depth + 1) / 2;
    const PairPanels right = {packed.b.data(), kPairColumns * kDeep.depth};
    pack_pairs(b, depth, columns, element(b, B, ldb, from, int64_t{0}), ldb, packed.b.data(),
               right.panel);
    for (int64_t i = 0; i < m; i += kPairColumns) {
      const int64_t rows = std::min(kPairColumns, m - i);
      const LeftOperand left(a, rows, depth, element(a, A, lda, i, from), lda, packed.a.data());
      float* const sums = packed.sums.data() + i * kDeep.columns;
      const OldSums old = from > 0 || beta != 0 ? OldSums{sums, kDeep.columns} : OldSums{};
      if (from + depth < k) {
        tiles.multiply(rows, columns, pairs, left.at(0), right, old, sums, kDeep.columns);
      } else {
        tiles.multiply_rounded(rows, columns, pairs, left.at(0), right, old, C + i * ldc, ldc);
      }
    }
  }
}

}  // namespace

template <typename Out>
void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, Out* C,
                int64_t ldc) {
  if constexpr (std::is_same_v<Out, float>) {
    if (beta != 0 && beta != 1) scale_rows(m, n, beta, C, ldc);
    multiply(tiles, a, b, m, n, k, A, lda, B, ldb, beta != 0, C, ldc);
  } else {
    for (int64_t i = 0; i < m; i += kSumRows) {
      for (int64_t j = 0; j < n; j += kDeep.columns) {
        multiply_columns(tiles, a, b, std::min(kSumRows, m - i), std::min(kDeep.columns, n - j), k,
                         element(a, A, lda, i, int64_t{0}), lda, element(b, B, ldb, int64_t{0}, j),
                         ldb, beta, C + i * ldc + j, ldc);
      }
    }
  }
  tiles.release();
}

template void gemm_tiled(const Bf16Tiles&, Transpose, Transpose, int64_t, int64_t, int64_t,
                         const Bf16*, int64_t, const Bf16*, int64_t, float, float*, int64_t);
template void gemm_tiled(const Bf16Tiles&, Transpose, Transpose, int64_t, int64_t, int64_t,
                         const Bf16*, int64_t, const Bf16*, int64_t, float, Bf16*, int64_t);

}  // namespace thinwire::tensor
