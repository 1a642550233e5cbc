// How an optimizer reaches the other workers that average their gradients with its own.
#pragma once

#include <functional>
#include <span>

namespace thinwire::optim {

// Replaces values that follow linearly from this worker's gradient by their mean over all workers,
// which call it in the same order with as many values. Empty: the gradient is already the mean.
using Average = std::function<void(std::span<float> values)>;

}  // namespace thinwire::optim
