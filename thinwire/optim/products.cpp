#include "thinwire/optim/products.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/scratch.h"
#include "thinwire/base/simd.h"

namespace thinwire::optim {
namespace {

// Blocks of sums that fit the registers: 8 rows by 2 vectors in AVX-512, which has 32 registers of
// 16 lanes; 6 rows by 2 where there are 16 of 8 lanes or fewer.
template <int64_t Rows, int64_t Count>
struct Block {
  static constexpr int64_t kRows = Rows;
  static constexpr int64_t kLanes = Count;
  static constexpr int64_t kColumns = 2 * Count;
  using Lanes [[gnu::vector_size(Count * sizeof(float))]] = float;
};
using WideBlock = Block<8, 16>;
using NarrowBlock = Block<6, 8>;
constexpr int64_t kRows = WideBlock::kRows;
constexpr int64_t kColumns = WideBlock::kColumns;
constexpr int64_t kTile = 32;

int64_t left_stride(const Product& p) { return p.left_columns > 0 ? p.left_columns : p.inner; }

int64_t right_stride(const Product& p) { return p.right_step * p.columns; }

// Copies `width` of the right matrix's columns from `column` on to `panel`, row by row, each padded
// with zeros to kColumns.
void pack(const Product& p, int64_t column, int64_t width, float* panel) {
  if (p.transposed) {
    for (int64_t k = 0; k < p.inner; ++k, panel += kColumns) {
      for (int64_t i = 0; i < width; ++i) panel[i] = p.right[(column + i) * p.inner + k];
      std::fill(panel + width, panel + kColumns, 0.0f);
    }
    return;
  }
  for (int64_t k = 0; k < p.inner; ++k, panel += kColumns) {
    std::memcpy(panel, p.right + k * right_stride(p) + column,
                static_cast<size_t>(width) * sizeof(float));
    std::fill(panel + width, panel + kColumns, 0.0f);
  }
}

// Adds beta * added to alpha times a row's sums, of which the first `width` are used.
void store(const Product& p, float* values, int64_t at, int64_t width) {
  if (p.added != nullptr) {
    for (int64_t i = 0; i < width; ++i) values[i] += p.beta * p.added[at + i];
  }
  std::memcpy(p.out + at, values, static_cast<size_t>(width) * sizeof(float));
}

// As many rows as there are indices, times two vectors of a packed panel. The indices are
// constants, so that the sums stay in registers.
template <typename Shape, int64_t... kRow>
[[gnu::always_inline]] inline void multiply_block(const Product& p, const float* panel, int64_t row,
                                                  int64_t column, int64_t width,
                                                  std::integer_sequence<int64_t, kRow...>) {
  using Lanes = Shape::Lanes;
  Lanes sums[sizeof...(kRow)][2] = {};
  const int64_t stride = left_stride(p), step = p.left_step;
  const float* const left = p.left + row * stride;
  for (int64_t k = 0; k < p.inner; ++k) {
    Lanes first, second;
    std::memcpy(&first, panel + k * kColumns, sizeof first);
    std::memcpy(&second, panel + k * kColumns + Shape::kLanes, sizeof second);
    ((sums[kRow][0] += left[kRow * stride + k * step] * first,
      sums[kRow][1] += left[kRow * stride + k * step] * second),
     ...);
  }
  float values[sizeof...(kRow)][Shape::kColumns];
  ((sums[kRow][0] *= p.alpha, sums[kRow][1] *= p.alpha,
    std::memcpy(values[kRow], &sums[kRow], sizeof values[kRow])),
   ...);
  (store(p, values[kRow], (row + kRow) * p.columns + column, width), ...);
}

// Blocks of whole height, then of 2 rows, then of 1.
template <typename Shape>
[[gnu::always_inline]] inline void multiply_rows(const Product& p, const float* panel,
                                                 int64_t begin, int64_t end, int64_t column,
                                                 int64_t width) {
  constexpr int64_t kHeight = Shape::kRows;
  int64_t row = begin;
  for (; row + kHeight <= end; row += kHeight) {
    multiply_block<Shape>(p, panel, row, column, width,
                          std::make_integer_sequence<int64_t, kHeight>());
  }
  for (; row + 2 <= end; row += 2) {
    multiply_block<Shape>(p, panel, row, column, width, std::make_integer_sequence<int64_t, 2>());
  }
  if (row < end) {
    multiply_block<Shape>(p, panel, row, column, width, std::make_integer_sequence<int64_t, 1>());
  }
}

bool has_wide_registers() {
#if defined(__x86_64__)
  static const bool found = __builtin_cpu_supports("avx512f");
  return found;
#else
  return false;
#endif
}

// How a product is cut into blocks changes no bit: each sum is formed in the order of `inner`.
THINWIRE_CLONES void multiply_panel(const Product& p, const float* panel, int64_t begin,
                                    int64_t end, int64_t column, int64_t width) {
  if (has_wide_registers()) return multiply_rows<WideBlock>(p, panel, begin, end, column, width);
  for (int64_t part = 0; part < width; part += NarrowBlock::kColumns) {
    multiply_rows<NarrowBlock>(p, panel + part, begin, end, column + part,
                               std::min(NarrowBlock::kColumns, width - part));
  }
}

void multiply_part(const Product& p, int64_t row_begin, int64_t row_end, int64_t column_begin,
                   int64_t column_end) {
  thread_local std::vector<float> own;
  const std::span<float> panel = scratch(own, p.inner * kColumns);
  for (int64_t column = column_begin; column < column_end; column += kColumns) {
    const int64_t width = std::min(kColumns, p.columns - column);
    pack(p, column, width, panel.data());
    multiply_panel(p, panel.data(), row_begin, row_end, column, width);
  }
}

// A panel of a symmetric product from its first row that the other triangle does not give, and that
// part of the other triangle which it gives.
void multiply_symmetric_panel(const Product& p, int64_t column) {
  const int64_t end = std::min(column + kColumns, p.columns);
  multiply_part(p, column, p.columns, column, end);
  for (int64_t row = end; row < p.columns; ++row) {
    for (int64_t i = column; i < end; ++i) p.out[i * p.columns + row] = p.out[row * p.columns + i];
  }
}

}  // namespace

void multiply(const Product& product, int64_t rows, ThreadPool& threads) {
  if (product.symmetric) {
    // A long panel and a short one at a time.
    const int64_t panels = (product.columns + kColumns - 1) / kColumns;
    threads.for_ranges((panels + 1) / 2, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        multiply_symmetric_panel(product, i * kColumns);
        const int64_t other = panels - 1 - i;
        if (other != i) multiply_symmetric_panel(product, other * kColumns);
      }
    });
    return;
  }
  // Threads that share no columns pack nothing twice.
  if (product.columns >= 2 * kColumns * threads.size()) {
    threads.for_ranges(product.columns, kColumns, [&](int64_t begin, int64_t end, int) {
      multiply_part(product, 0, rows, begin, end);
    });
    return;
  }
  threads.for_ranges(rows, kRows, [&](int64_t begin, int64_t end, int) {
    multiply_part(product, begin, end, 0, product.columns);
  });
}

void transpose(const float* in, int64_t rows, int64_t columns, float* out, ThreadPool& threads) {
  threads.for_ranges(columns, kTile, [&](int64_t begin, int64_t end, int) {
    for (int64_t x = begin; x < end; x += kTile) {
      for (int64_t y = 0; y < rows; y += kTile) {
        for (int64_t column = x; column < std::min(end, x + kTile); ++column) {
          for (int64_t row = y; row < std::min(rows, y + kTile); ++row) {
            out[column * rows + row] = in[row * columns + column];
          }
        }
      }
    }
  });
}

}  // namespace thinwire::optim
