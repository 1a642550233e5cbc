// What a training step keeps in a member's memory, computed from shapes alone: the buffers that the
// trainer plans for its CPU backend. `thinwire bench speed --json` measures the same (peak_bytes);
// a test compares the two.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/number_format.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/method.h"

namespace thinwire::method {

struct StepMemory {
  double weights = 0;  // of trained tensors; with bf16 products also a bf16 copy of what they read
  double frozen = 0;   // with an adapter: of the other tensors, likewise
  double gradients = 0;       // fp32: all, or with train.update = layer those held at once
  double consensus = 0;       // optimizer and method state, equal on all replicas
  double local = 0;           // the member's own state
  double sums = 0;            // that the transport forms
  double window = 0;          // with train.offload: of what is then not counted as weights or state
  double activations = 0;     // kept from forward to backward pass, and the buffers of both
  double cross_entropy = 0;   // one chunk of logits
  double thread_buffers = 0;  // of attention and the matrix products, over all threads
  double program = 0;         // the program and its code; step_memory() leaves it at 0
  double total() const;
};

// Of an arena of tensors.
double weight_bytes(std::span<const TensorSpec> tensors, WeightFormat format);

// Of the bf16 copy of fp32 tensors, for products in bf16.
double copy_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The part of `frozen` that the members in one process share.
double shared_frozen_bytes(const config::Recipe& recipe);

// By how much the program itself grows with its first step: code that is read only then and, for
// bf16 products, what oneDNN generates and works in. Measured with AMX; 5 to 10 MB less without.
double step_code_bytes(const config::Recipe& recipe);

// For a member that takes `rows` rows per step (`microbatch` of them at once), with or without bf16
// products. model.vocab must be set; train.precision "auto" counts as fp32.
StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows);

}  // namespace thinwire::method
