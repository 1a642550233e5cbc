#include "thinwire/optimizers/muon/newton_schulz.h"

#include <algorithm>

#include "thinwire/base/simd.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optim/products.h"

namespace thinwire::optim {
namespace {

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace

void NewtonSchulz::orthogonalise(std::span<float> matrix, int64_t rows, int64_t columns,
                                 ThreadPool& threads) {
  const int64_t small = std::min(rows, columns);
  const int64_t large = std::max(rows, columns);
  for (std::vector<float>* buffer : {&x_, &next_}) {
    buffer->resize(std::max(buffer->size(), matrix.size()));
  }
  for (std::vector<float>* buffer : {&a_, &polynomial_}) {
    buffer->resize(std::max(buffer->size(), static_cast<size_t>(small * small)));
  }
  const double norm = global_norm(matrix, threads);
  if (rows > columns) {
    transpose(matrix.data(), rows, columns, x_.data(), threads);
  } else {
    std::copy(matrix.begin(), matrix.end(), x_.begin());
  }
  scale(x_.data(), small * large, static_cast<float>(1 / std::max(norm, 1e-7)));
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    multiply({.left = x_.data(),
              .right = x_.data(),
              .out = a_.data(),
              .inner = large,
              .columns = small,
              .transposed = true,
              .symmetric = true},
             small, threads);
    multiply({.left = a_.data(),
              .right = a_.data(),
              .added = a_.data(),
              .out = polynomial_.data(),
              .inner = small,
              .columns = small,
              .alpha = kNewtonSchulzC,
              .beta = kNewtonSchulzB,
              .symmetric = true},
             small, threads);
    multiply(
        {polynomial_.data(), x_.data(), x_.data(), next_.data(), small, large, 1, kNewtonSchulzA},
        small, threads);
    std::swap(x_, next_);
  }
  if (rows > columns) {
    transpose(x_.data(), small, large, matrix.data(), threads);
  } else {
    std::copy_n(x_.begin(), matrix.size(), matrix.begin());
  }
}

}  // namespace thinwire::optim
