// The natural gradient under an empirical Fisher matrix of the last s gradients (Das 2024, "Natural
// GaLore"). With G^ = [g_1 ... g_s], k x s, and g its newest column,
//   g* = (lambda I + G^ G^T)^-1 g = G^ (lambda I + G^T G^)^-1 e
// where e picks the newest. The right-hand side needs an s x s Cholesky decomposition only, and is
// computed in float64: terms up to |g|^2 / lambda times larger than their sum cancel in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// The last gradients and their products with each other, in memory of others, zero at first. A
// gradient of zeros is as good as none.
class GradientHistory {
 public:
  // gradients [size, length], one behind the other in no order; products [2, size, size], the
  // float64 matrix G^T G^ as the sum of two floats each.
  GradientHistory(std::span<float> gradients, std::span<float> products, int64_t size);

  // Replaces the gradient at `place` and its products.
  void put(int64_t place, std::span<const float> gradient, ThreadPool& threads);
  // Forms all products again, after the gradients were changed.
  void renew_products(ThreadPool& threads);
  void clear();
  // The gradient at `place`, to be changed.
  std::span<float> at(int64_t place);

  // The mean square norm of the gradients that are not zero; 0 where all are.
  double mean_square() const;
  // g* of the gradient at `place`, into `out` [length]. damping > 0.
  void natural_gradient(int64_t place, double damping, std::span<float> out,
                        ThreadPool& threads) const;

 private:
  double product(int64_t i, int64_t j) const;
  void set_product(int64_t i, int64_t j, double value);

  std::span<float> gradients_, products_;
  int64_t size_, length_;
};

// x of (damping I + A) x = e_place by Cholesky decomposition, A [size, size] positive semidefinite
// up to rounding: a pivot, which is never below damping, is not taken below it.
std::vector<double> solve_damped(std::vector<double> matrix, int64_t size, double damping,
                                 int64_t place);

}  // namespace thinwire::optim
