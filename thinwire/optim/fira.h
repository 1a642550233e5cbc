// Fira's arithmetic (Chen et al. 2024, arXiv 2410.01623, algorithm 1); its facts are in
// method/fira.h.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged):
//   R = P^T G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) of column j
//   p = p (1 - lr wd) - lr * scale * (P D + limited((G - P R) diag(s)))
// where the last term's norm is limited to `growth` times that of the step before. P as GaLore's.
std::unique_ptr<Optimizer> make_fira(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);

}  // namespace thinwire::optim
