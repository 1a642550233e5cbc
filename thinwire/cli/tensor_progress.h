// Progress of commands that read or write a model tensor by tensor and shut down cleanly when
// interrupted.
#pragma once

#include <string>

#include "thinwire/checkpoint/weights.h"

namespace thinwire::cli {

// The function it returns shows how far the work is. From its first call on, signals are caught;
// after one it throws Interrupted, so that nothing half-written remains.
checkpoint::TensorProgress show_tensors(const std::string& label);

}  // namespace thinwire::cli
