// Progress of commands that read or write a model, tensor by tensor, and end in order when
// interrupted.
#pragma once

#include <string>

#include "thinwire/checkpoint/weights.h"

namespace thinwire::cli {

// What it returns shows how far the work is. From its first call on signals are caught, and it
// throws Interrupted once one came, so that nothing half-written stays.
checkpoint::TensorProgress show_tensors(const std::string& label);

}  // namespace thinwire::cli
