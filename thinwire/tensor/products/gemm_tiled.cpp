#include <algorithm>
#include <vector>

#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {
namespace {

// A packed block of B and a block of rows of A stay in the L2 cache together. If the result is
// fp32, the block of B is wide, so that A, which may have to be packed, is read fewer times; if it
// is bf16, the block is deep, so that sums rarely wait for the next one. Units of depth.
struct Block {
  int64_t units, columns;
};
constexpr Block kWide = {256, 512}, kDeep = {512, 256};
constexpr int64_t kUnits = kWide.units * kWide.columns;
static_assert(kUnits == kDeep.units * kDeep.columns);
constexpr int64_t kRows = 256;
// Rows whose sums wait, if the result is bf16.
constexpr int64_t kSumRows = 1024;

template <typename In>
struct Buffers {
  AlignedBuffer<In> b{kUnit<In> * kUnits};
  AlignedBuffer<In> a{kUnit<In> * kRows * kDeep.units};
  AlignedBuffer<float> sums;  // [kSumRows, columns of kDeep], if needed
};

template <typename In>
Buffers<In>& buffers() {
  thread_local Buffers<In> own;
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

// A block of rows of op(A) as left operands of `height` rows each: where they are if their units
// are whole there, or packed.
template <typename In>
class LeftBlock {
 public:
  LeftBlock(Transpose a, int64_t rows, int64_t depth, const In* A, int64_t lda, In* packed,
            int64_t height)
      : height_(height) {
    const int64_t whole = whole_units<In>(depth);
    if (a == Transpose::kYes) {
      panel_ = whole * height;
      pack_panels(Transpose::kNo, depth, rows, A, lda, packed, panel_, height);
      first_ = {packed, kUnit<In>, kUnit<In> * height};
      return;
    }
    first_ = {A, lda, kUnit<In>};
    if constexpr (kUnit<In> > 1) {
      if (depth < whole) {
        pad_rows(rows, depth, A, lda, packed, whole);
        first_ = {packed, whole, kUnit<In>};
      }
    }
    panel_ = height * first_.row;
  }
  LeftOperand<In> at(int64_t row) const {
    return {first_.values + row / height_ * panel_, first_.row, first_.unit};
  }

 private:
  LeftOperand<In> first_;
  int64_t height_, panel_;
};

template <typename In>
void multiply(const Tiles<In>& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
              const In* A, int64_t lda, const In* B, int64_t ldb, float beta, float* C,
              int64_t ldc) {
  constexpr int64_t kDepth = kUnit<In> * kWide.units;
  if (beta != 0 && beta != 1) scale_rows(m, n, beta, C, ldc);
  Buffers<In>& packed = buffers<In>();
  for (int64_t j = 0; j < n; j += kWide.columns) {
    const int64_t columns = std::min(kWide.columns, n - j);
    for (int64_t from = 0; from < k; from += kDepth) {
      const int64_t depth = std::min(kDepth, k - from), units = whole_units<In>(depth) / kUnit<In>;
      const RightPanels<In> right = {packed.b.data(), tiles.panel_columns * kDepth};
      pack_panels(b, depth, columns, element(b, B, ldb, from, j), ldb, packed.b.data(), right.panel,
                  tiles.panel_columns);
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        const LeftBlock<In> left(a, rows, depth, element(a, A, lda, i, from), lda, packed.a.data(),
                                 tiles.block_rows);
        for (int64_t r = 0; r < rows; r += tiles.block_rows) {
          float* const to = C + (i + r) * ldc + j;
          tiles.multiply(std::min(tiles.block_rows, rows - r), columns, units, left.at(r), right,
                         beta != 0 || from > 0 ? OldSums{to, ldc} : OldSums{}, to, ldc);
        }
      }
    }
  }
  tiles.release();
}

// One block of columns of a bf16 result, of up to kSumRows rows. Sums wait in fp32 until the last
// block of depth.
void multiply_columns(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t columns,
                      int64_t k, const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta,
                      Bf16* C, int64_t ldc) {
  constexpr int64_t kDepth = 2 * kDeep.units;
  Buffers<Bf16>& packed = buffers<Bf16>();
  const bool sums_wait = k > kDepth || beta != 0;
  if (sums_wait && packed.sums.data() == nullptr) {
    packed.sums = AlignedBuffer<float>(kSumRows * kDeep.columns);
  }
  if (beta != 0) {
    const std::vector<float> factors(static_cast<size_t>(m), beta);
    kernels<Bf16>().load_rows(m, columns, factors.data(), C, ldc, packed.sums.data(),
                              kDeep.columns);
  }
  for (int64_t from = 0; from < k; from += kDepth) {
    const int64_t depth = std::min(kDepth, k - from), units = (depth + 1) / 2;
    const RightPanels<Bf16> right = {packed.b.data(), tiles.panel_columns * kDepth};
    pack_panels(b, depth, columns, element(b, B, ldb, from, int64_t{0}), ldb, packed.b.data(),
                right.panel, tiles.panel_columns);
    for (int64_t i = 0; i < m; i += tiles.block_rows) {
      const int64_t rows = std::min(tiles.block_rows, m - i);
      const LeftBlock<Bf16> left(a, rows, depth, element(a, A, lda, i, from), lda, packed.a.data(),
                                 tiles.block_rows);
      float* const sums = sums_wait ? packed.sums.data() + i * kDeep.columns : nullptr;
      const OldSums old = from > 0 || beta != 0 ? OldSums{sums, kDeep.columns} : OldSums{};
      if (from + depth < k) {
        tiles.multiply(rows, columns, units, left.at(0), right, old, sums, kDeep.columns);
      } else {
        tiles.multiply_rounded(rows, columns, units, left.at(0), right, old, C + i * ldc, ldc);
      }
    }
  }
}

}  // namespace

void gemm_tiled(const Tiles<float>& tiles, Transpose a, Transpose b, int64_t m, int64_t n,
                int64_t k, const float* A, int64_t lda, const float* B, int64_t ldb, float beta,
                float* C, int64_t ldc) {
  multiply(tiles, a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, float* C,
                int64_t ldc) {
  multiply<Bf16>(tiles, a, b, m, n, k, A, lda, B, ldb, beta, C, ldc);
}

void gemm_tiled(const Bf16Tiles& tiles, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
                const Bf16* A, int64_t lda, const Bf16* B, int64_t ldb, float beta, Bf16* C,
                int64_t ldc) {
  for (int64_t i = 0; i < m; i += kSumRows) {
    for (int64_t j = 0; j < n; j += kDeep.columns) {
      multiply_columns(tiles, a, b, std::min(kSumRows, m - i), std::min(kDeep.columns, n - j), k,
                       element(a, A, lda, i, int64_t{0}), lda, element(b, B, ldb, int64_t{0}, j),
                       ldb, beta, C + i * ldc + j, ldc);
    }
  }
  tiles.release();
}

}  // namespace thinwire::tensor
