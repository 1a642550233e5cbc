// A gradient's projection, by its definition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::optim {

// P^T G Q, as a backward pass forms it.
inline std::vector<float> projection(const tensor::Projection& bases,
                                     std::span<const float> gradient, int64_t rows,
                                     int64_t columns) {
  const int64_t out_rows = bases.rows(rows), out_columns = bases.columns(columns);
  std::vector<float> out;
  for (int64_t i = 0; i < out_rows; ++i) {
    for (int64_t j = 0; j < out_columns; ++j) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const double left =
            bases.left == nullptr ? double(row == i) : double(bases.left[i * rows + row]);
        for (int64_t column = 0; left != 0 && column < columns; ++column) {
          const double right = bases.right == nullptr ? double(column == j)
                                                      : double(bases.right[j * columns + column]);
          sum += left * gradient[size_t(row * columns + column)] * right;
        }
      }
      out.push_back(float(sum));
    }
  }
  return out;
}

}  // namespace thinwire::optim
