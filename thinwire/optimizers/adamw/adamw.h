// AdamW's arithmetic, for optimizers that leave some tensors to it or take its step in coordinates
// of their own.
#pragma once

#include <span>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// The update of one tensor or some of its rows, for optimizers that leave some tensors to AdamW. m
// and v are as long as the tensor.
void adamw_update(const method::OptimizerOptions& options, bool decays, const TensorUpdate& tensor,
                  const StateValues& m, const StateValues& v, const OptimizerStep& step,
                  ThreadPool& threads);

// The same on a device, with the same bits.
void adamw_update_on_device(const method::OptimizerOptions& options, const TensorSpec& spec,
                            const DeviceUpdate& tensor, const DevicePiece& m, const DevicePiece& v,
                            const OptimizerStep& step, ThreadPool& threads);

// The direction of such a step, for optimizers that take it in coordinates of their own: `values`,
// an already scaled gradient, is added to the running means m and v and becomes m / (1 - beta1^t) /
// (sqrt(v) / sqrt(1 - beta2^t) + eps). All three are equally long.
void adamw_direction(const method::OptimizerOptions& options, const OptimizerStep& step,
                     std::span<float> values, const StateValues& m, const StateValues& v,
                     ThreadPool& threads);

// What the bias corrections multiply such a direction by: sqrt(1 - beta2^t) / (1 - beta1^t).
double bias_correction(const method::OptimizerOptions& options, const OptimizerStep& step);

}  // namespace thinwire::optim
