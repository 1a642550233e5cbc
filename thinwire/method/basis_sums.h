// The sums by which workers that average projected gradients agree on bases. A step of subspace
// iteration, on the mean gradient G of all workers, takes two products with G: P^T G and then its
// image, [rank, columns] and [rows, rank] values (optim/subspace.h). Each is averaged as soon as
// every worker has formed it from its own gradient, so no whole gradient is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

struct BasisSum {
  size_t tensor = 0;
  uint32_t number = 0;  // of the tensor's in this step
  int64_t elements = 0;
};

// Those of a training step, counted from 0; none unless the recipe's workers average projected
// gradients at every step, in bases that follow the gradients. `tensors` are the model's.
std::vector<BasisSum> basis_sums(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                                 int64_t step);

// The mean of a run's steps.
struct BasisTraffic {
  double sums = 0;
  double bytes = 0;  // encoded
};
BasisTraffic basis_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// Elements of the largest such sum.
int64_t largest_basis_sum(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The operation's fragment; gradients' own sums count from 0.
uint32_t basis_fragment(size_t tensor, uint32_t number);

// The number format of these sums where gradients have this one: at least bf16, since what is
// orthonormalised spreads the errors of a few values over all of them.
WireType basis_wire(WireType gradients);

}  // namespace thinwire::method
