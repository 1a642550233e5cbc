// Natural GaLore's arithmetic (Das 2024). method/optimizers/natural_galore.h describes the method.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// Like GaLore (optim/galore.h), but Adam takes the natural gradient of the core R
// (optim/natural_gradient.h). The Fisher matrix is that of the last natural_galore.history cores:
//   p = p (1 - lr wd) - lr * scale * P Adam((lambda I + R^ R^T)^-1 R)
// With two sides the core is P^T G Q and the step is P Adam(...) Q^T.
std::unique_ptr<Optimizer> make_natural_galore(const method::OptimizerOptions& options,
                                               const tensor::Layout& layout);

}  // namespace thinwire::optim
