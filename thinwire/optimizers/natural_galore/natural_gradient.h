// The natural gradient under an empirical Fisher matrix of the last s gradients (Das 2024, "Natural
// GaLore"). With G^ = [g_1 ... g_s], k x s, and g its newest column,
//   g* = (lambda I + G^ G^T)^-1 g = G^ (lambda I + G^T G^)^-1 e
// where e selects the newest column. The right-hand side needs only an s x s Cholesky
// decomposition. It is computed in float64 because terms up to |g|^2 / lambda times larger than
// their sum cancel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// The last gradients and their products with each other, in memory that the caller owns and that
// starts out as zeros. A gradient of zeros counts as absent.
class GradientHistory {
 public:
  // gradients: [size, length], one after the other, in no particular order. products:
  // [2, size, size], the float64 matrix G^T G^ with each element stored as the sum of two floats.
  GradientHistory(std::span<float> gradients, std::span<float> products, int64_t size);

  // Replaces the gradient at `place` and updates its products.
  void put(int64_t place, std::span<const float> gradient, ThreadPool& threads);
  // Recomputes all products after the gradients have changed.
  void renew_products(ThreadPool& threads);
  void clear();
  // The gradient at `place`, which the caller may change.
  std::span<float> at(int64_t place);

  // The mean square norm of the gradients that are not zero; 0 if all are zero.
  double mean_square() const;
  // Writes g* of the gradient at `place` to `out` [length]. damping > 0.
  void natural_gradient(int64_t place, double damping, std::span<float> out,
                        ThreadPool& threads) const;

 private:
  double product(int64_t i, int64_t j) const;
  void set_product(int64_t i, int64_t j, double value);

  std::span<float> gradients_, products_;
  int64_t size_, length_;
};

// Solves (damping I + A) x = e_place for x by Cholesky decomposition. A [size, size] is positive
// semidefinite up to rounding. In exact arithmetic no squared pivot is below `damping`; one that
// rounding puts below it is raised to it.
std::vector<double> solve_damped(std::vector<double> matrix, int64_t size, double damping,
                                 int64_t place);

}  // namespace thinwire::optim
