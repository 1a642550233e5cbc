// SCALE's arithmetic (Glentis et al. 2025, arXiv 2506.16659, algorithm 1).
// method/optimizers/scale.h describes the method.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// For every matrix, with weights [outputs, inputs]:
//   g = beta m + (1 - beta) g, m = g      in the last layer
//   p = p (1 - lr wd) - lr g_i / max(rms(g_i), 1e-8)      for each output i
// The embedding, if it is not the last layer, is [inputs, outputs], so there i is a column.
std::unique_ptr<Optimizer> make_scale(const method::OptimizerOptions& options,
                                      const tensor::Layout& layout);

}  // namespace thinwire::optim
