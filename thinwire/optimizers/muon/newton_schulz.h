// Orthogonalisation of a matrix by a quintic Newton-Schulz iteration (Jordan et al. 2024, "Muon: An
// optimizer for hidden layers in neural networks"): all singular values are driven towards 1, while
// the singular vectors stay the same. The products are our own, with a fixed order of sums: the
// same bits on every instruction set and for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/optimizers/muon/muon_spec.h"

namespace thinwire::optim {

using method::kNewtonSchulzSteps;
// x -> a x + b x^3 + c x^5 maps (0, 1] to about [0.7, 1.2] in five steps.
inline constexpr float kNewtonSchulzA = 3.4445f;
inline constexpr float kNewtonSchulzB = -4.7750f;
inline constexpr float kNewtonSchulzC = 2.0315f;

class NewtonSchulz {
 public:
  // Replaces a row-major matrix of rows x columns. With X = matrix / max(norm, 1e-7), transposed if
  // there are more rows than columns, each step is
  //   A = X X^T      X = a X + (b A + c A A) X
  void orthogonalise(std::span<float> matrix, int64_t rows, int64_t columns, ThreadPool& threads);

 private:
  // Sized for the largest matrix so far: X and its next value, A, b A + c A A.
  std::vector<float> x_, next_, a_, polynomial_;
};

}  // namespace thinwire::optim
