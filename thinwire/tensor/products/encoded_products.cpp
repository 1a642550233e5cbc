#include <algorithm>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {
namespace {

// Slabs of C begin at multiples of this many rows or columns.
constexpr int64_t kGrain = 64;

// Memory that a thread uses again and again.
Bf16* panel_buffer(int64_t count) {
  thread_local AlignedBuffer<Bf16> buffer;
  if (buffer.bytes() < static_cast<size_t>(count) * sizeof(Bf16)) {
    buffer = AlignedBuffer<Bf16>(count);
  }
  return buffer.data();
}

int64_t rows_of(std::span<const EncodedMatrix> W) {
  int64_t rows = 0;
  for (const EncodedMatrix& matrix : W) rows += matrix.rows;
  return rows;
}

// Columns [column, column + columns) of rows [row, row + rows) of W, densely.
void decode_panel(std::span<const EncodedMatrix> W, int64_t row, int64_t rows, int64_t column,
                  int64_t columns, Bf16* to) {
  for (const EncodedMatrix& matrix : W) {
    const int64_t first = std::clamp<int64_t>(row, 0, matrix.rows);
    const int64_t count = std::clamp<int64_t>(row + rows, first, matrix.rows) - first;
    if (count > 0) decode(matrix, first, count, column, columns, to);
    to += count * columns;
    row -= matrix.rows;
  }
}

}  // namespace

void gemm_encoded(ThreadPool& threads, Transpose w, int64_t m, const Bf16* A, int64_t lda,
                  std::span<const EncodedMatrix> W, float beta, Bf16* C, int64_t ldc) {
  const int64_t rows = rows_of(W), columns = W.front().columns;
  const bool transposed = w == Transpose::kYes;
  const int64_t n = transposed ? rows : columns, k = transposed ? columns : rows;
  const int64_t width = encoded_panel_columns(k);
  const auto multiply = [&](int64_t first_row, int64_t count, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += width) {
      const int64_t wide = std::min(width, end - j);
      Bf16* const panel = panel_buffer(wide * k);
      if (transposed) {
        decode_panel(W, j, wide, 0, k, panel);
      } else {
        decode_panel(W, 0, k, j, wide, panel);
      }
      gemm(Transpose::kNo, w, count, wide, k, A + first_row * lda, lda, panel,
           transposed ? k : wide, beta, C + first_row * ldc + j, ldc);
    }
  };
  // Threads share out the columns, so that each value is decoded once, unless there are too few.
  if (n >= kGrain * threads.size()) {
    threads.for_ranges(n, kGrain,
                       [&](int64_t begin, int64_t end, int) { multiply(0, m, begin, end); });
  } else {
    threads.for_ranges(
        m, kGrain, [&](int64_t begin, int64_t end, int) { multiply(begin, end - begin, 0, n); });
  }
}

}  // namespace thinwire::tensor
