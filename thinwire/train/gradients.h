// Loss and gradients of more rows than one forward pass takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "thinwire/model/model.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::train {

// Sets `gradients` to those of the mean loss over all tokens and returns the sum of the losses in
// nats. `tokens` holds rows of sequence + 1; at most max_rows go through the model at once, in
// order. `ready` is called for the layers of the last pass as in model::Model::loss_and_gradients.
double accumulate_gradients(model::Model& model, std::span<const int32_t> tokens, int64_t sequence,
                            int64_t max_rows, tensor::Arena& gradients,
                            const std::function<void(int layer)>& ready);

}  // namespace thinwire::train
