// APOLLO's arithmetic (Zhu et al. 2024, arXiv 2412.05270, algorithm 1); its facts are in
// method/apollo.h.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged), P
// [rank, rows] with entries from N(0, 1 / rank), drawn anew every apollo.refresh steps:
//   R = P G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) of column j, or of all
//   p = p (1 - lr wd) - lr * scale * limited(G diag(s))
// where a step's norm is limited to `growth` times the last one's.
std::unique_ptr<Optimizer> make_apollo(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout);

}  // namespace thinwire::optim
