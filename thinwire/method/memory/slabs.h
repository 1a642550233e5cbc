// The recipe field model.vocab_slabs: the gradients of the embedding and the head are formed,
// handed over and applied in slabs of rows, one after another (docs/memory.md).
#pragma once

#include <cstdint>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"

namespace thinwire::method {

// Throws a UsageError that names the alternatives if the field is more than 1 and gradients are not
// handed over one after another, the optimizer or the clipping needs all rows of a tensor at once,
// or the model or its backend forms the gradients otherwise.
void check_slabs(const config::Recipe& recipe);

// Elements of a tensor's gradient that are formed at once where gradients are handed over.
int64_t formed_elements(const TensorSpec& tensor, int64_t slabs);

}  // namespace thinwire::method
