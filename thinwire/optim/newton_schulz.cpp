#include "thinwire/optim/newton_schulz.h"

#include <algorithm>
#include <cstring>

#include "thinwire/base/simd.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {
namespace {

// Sixteen columns, in as many registers as the instruction set needs.
using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 2 * kLanes;

// C = alpha L R + beta D. All row-major: L is [rows, inner], R is [inner, columns], C and D (null:
// none) are [rows, columns].
struct Product {
  const float* left;
  const float* right;
  const float* added;
  float* out;
  int64_t inner;
  int64_t columns;
  float alpha;
  float beta;
};

// One element: its sum runs over the inner dimension in order, here as in the block below.
THINWIRE_CLONES void multiply_part(const Product& p, int64_t row_begin, int64_t row_end,
                                   int64_t column_begin) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t column = column_begin; column < p.columns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < p.inner; ++k) {
        sum += p.left[row * p.inner + k] * p.right[k * p.columns + column];
      }
      const int64_t at = row * p.columns + column;
      p.out[at] = p.added == nullptr ? p.alpha * sum : p.alpha * sum + p.beta * p.added[at];
    }
  }
}

THINWIRE_CLONES void multiply_block(const Product& p, int64_t row, int64_t column) {
  Lanes sums[kRows][2] = {};
  for (int64_t k = 0; k < p.inner; ++k) {
    Lanes right[2];
    std::memcpy(right, p.right + k * p.columns + column, sizeof right);
    for (int64_t r = 0; r < kRows; ++r) {
      const float left = p.left[(row + r) * p.inner + k];
      sums[r][0] += left * right[0];
      sums[r][1] += left * right[1];
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t at = (row + r) * p.columns + column;
    for (int64_t half = 0; half < 2; ++half) {
      Lanes value = p.alpha * sums[r][half];
      if (p.added != nullptr) {
        Lanes added;
        std::memcpy(&added, p.added + at + half * kLanes, sizeof added);
        value += p.beta * added;
      }
      std::memcpy(p.out + at + half * kLanes, &value, sizeof value);
    }
  }
}

void multiply(const Product& p, int64_t rows, ThreadPool& threads) {
  const int64_t whole = p.columns / kColumns * kColumns;
  threads.for_ranges(rows, kRows, [&](int64_t begin, int64_t end, int) {
    const int64_t blocks_end = begin + (end - begin) / kRows * kRows;
    for (int64_t row = begin; row < blocks_end; row += kRows) {
      for (int64_t column = 0; column < whole; column += kColumns) multiply_block(p, row, column);
    }
    multiply_part(p, begin, blocks_end, whole);
    multiply_part(p, blocks_end, end, 0);
  });
}

void transpose(const float* in, int64_t rows, int64_t columns, float* out) {
  constexpr int64_t kTile = 32;
  for (int64_t y = 0; y < rows; y += kTile) {
    for (int64_t x = 0; x < columns; x += kTile) {
      for (int64_t row = y; row < std::min(rows, y + kTile); ++row) {
        for (int64_t column = x; column < std::min(columns, x + kTile); ++column) {
          out[column * rows + row] = in[row * columns + column];
        }
      }
    }
  }
}

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace

void NewtonSchulz::orthogonalise(std::span<float> matrix, int64_t rows, int64_t columns,
                                 ThreadPool& threads) {
  const int64_t small = std::min(rows, columns);
  const int64_t large = std::max(rows, columns);
  for (std::vector<float>* buffer : {&x_, &next_, &transposed_}) {
    buffer->resize(std::max(buffer->size(), matrix.size()));
  }
  for (std::vector<float>* buffer : {&a_, &polynomial_}) {
    buffer->resize(std::max(buffer->size(), static_cast<size_t>(small * small)));
  }
  const double norm = global_norm(matrix, threads);
  if (rows > columns) {
    transpose(matrix.data(), rows, columns, x_.data());
  } else {
    std::copy(matrix.begin(), matrix.end(), x_.begin());
  }
  scale(x_.data(), small * large, static_cast<float>(1 / std::max(norm, 1e-7)));
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    transpose(x_.data(), small, large, transposed_.data());
    multiply({x_.data(), transposed_.data(), nullptr, a_.data(), large, small, 1, 0}, small,
             threads);
    multiply({a_.data(), a_.data(), a_.data(), polynomial_.data(), small, small, kNewtonSchulzC,
              kNewtonSchulzB},
             small, threads);
    multiply(
        {polynomial_.data(), x_.data(), x_.data(), next_.data(), small, large, 1, kNewtonSchulzA},
        small, threads);
    std::swap(x_, next_);
  }
  if (rows > columns) {
    transpose(x_.data(), small, large, matrix.data());
  } else {
    std::copy_n(x_.begin(), matrix.size(), matrix.begin());
  }
}

}  // namespace thinwire::optim
