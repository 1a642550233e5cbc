// APOLLO's arithmetic (Zhu et al. 2024, arXiv 2412.05270, algorithm 1). method/optimizers/apollo.h
// describes the method.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged), and
// P [rank, rows] with entries from N(0, 1 / rank), redrawn every apollo.refresh steps:
//   R = P G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j, or for all
//   p = p (1 - lr wd) - lr * scale * limited(G diag(s))
// `limited` limits the norm of a step to `growth` times that of the previous step.
std::unique_ptr<Optimizer> make_apollo(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout);

}  // namespace thinwire::optim
