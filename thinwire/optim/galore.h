// GaLore's arithmetic (Zhao et al. 2024, arXiv 2403.03507, algorithm 2). method/optimizers/galore.h
// describes the method.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For a matrix of the blocks with rows <= columns (otherwise R = G Q and the update Adam(R) Q^T):
//   R = P^T G      p = p (1 - lr wd) - lr * galore.scale * P Adam(R)
// P is renewed every galore.refresh steps (optim/subspace.h). Adam is AdamW without decay.
std::unique_ptr<Optimizer> make_galore(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout);

}  // namespace thinwire::optim
