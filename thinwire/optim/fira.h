// Fira's arithmetic (Chen et al. 2024, arXiv 2410.01623, algorithm 1). method/optimizers/fira.h
// describes the method.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged):
//   R = P^T G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j
//   p = p (1 - lr wd) - lr * scale * (P D + limited((G - P R) diag(s)))
// `limited` limits the norm of the last term to `growth` times its norm in the previous step. P is
// the same as in GaLore (optim/galore.h).
std::unique_ptr<Optimizer> make_fira(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);

}  // namespace thinwire::optim
