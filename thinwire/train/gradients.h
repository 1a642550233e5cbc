// Loss and gradients of more rows than a forward pass takes.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/model/model.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::train {

// Gives the sink the gradients of the mean loss over all tokens and returns the sum of the losses
// in nats. `tokens` holds at least one row of sequence + 1; at most max_rows go through the model
// in a pass, in order.
double accumulate_gradients(model::Model& model, std::span<const int32_t> tokens, int64_t sequence,
                            int64_t max_rows, tensor::GradientSink& sink);

}  // namespace thinwire::train
