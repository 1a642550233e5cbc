// Natural GaLore's arithmetic (Das 2024); its facts are in method/natural_galore.h.
#pragma once

#include <memory>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// As GaLore (optim/galore.h), but Adam takes the natural gradient of the core R (optim/
// natural_gradient.h), whose Fisher matrix is of the last natural_galore.history cores:
//   p = p (1 - lr wd) - lr * scale * P Adam((lambda I + R^ R^T)^-1 R)
// With two sides the core is P^T G Q and the step P Adam(...) Q^T.
std::unique_ptr<Optimizer> make_natural_galore(const method::OptimizerOptions& options,
                                               const tensor::Layout& layout);

}  // namespace thinwire::optim
