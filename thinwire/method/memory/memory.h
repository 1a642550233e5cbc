// What a training step keeps in a member's memory, computed from shapes alone: the buffers that the
// trainer plans for its CPU backend. `thinwire bench speed --json` measures the same (peak_bytes);
// a test compares the two.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/base/number_format.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/architectures/architecture.h"
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

// The memory of an arena of tensors.
double weight_bytes(std::span<const TensorSpec> tensors, WeightFormat format);

// The memory of the bf16 copy of fp32 tensors, for products in bf16.
double copy_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The part of `frozen` that the members in one process share.
double shared_frozen_bytes(const config::Recipe& recipe);

// By how much the program itself grows with its first step: code that is read only then, and what
// threads need. Measured.
double step_code_bytes(const config::Recipe& recipe);

// For a member that takes `rows` rows per step (`microbatch` of them at once), with or without bf16
// products. model.vocab must be set; train.precision "auto" counts as fp32.
StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows);

// Where the ranks of a site (docs/mpi.md) share the steps of a worker's optimizer, each has the
// state of some tensors, updates these, and gives the others their new values.

// Whether they can: where the optimizer steps by whole gradients, and no merge changes its state.
bool shares_steps(const config::Recipe& recipe);
// The rank that updates each tensor, so that all have about as much state and as many values.
std::vector<int> step_ranks(const OptimizerOptions& options, std::span<const TensorSpec> tensors,
                            int ranks);
// The state of the rank that has most of it, and of all of them.
struct SharedState {
  double largest = 0, all = 0;
};
SharedState shared_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                         int ranks);

// The number format in which the weights that a run trains are kept: that of train.weights, or with
// an adapter fp32, since there only frozen weights are kept in fewer bits.
WeightFormat trained_format(const config::Recipe& recipe);

// The recipe field model.vocab_slabs: the gradients of the embedding and the head are formed,
// handed over and applied in slabs of rows, one after another (docs/memory.md).

// Elements of a tensor's gradient that are formed at once where gradients are handed over.
int64_t formed_elements(const TensorSpec& tensor, int64_t slabs);

// What a worker holds with the recipe field train.offload: weights and the optimizer's state are in
// files (base/offload.h), and a window of them in memory.

// What a worker keeps in files, in bytes: `tensors` and their optimizer state, the frozen tensors
// beside an adapter, and outer_bytes().
double offloaded_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);
// What workers that train apart agree on: shared weights, and the velocity of the outer step.
double outer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// The most of it that is in memory: the weights and state of the largest tensor, where it is cut
// into slabs the state of one of them, and half as much to read ahead what is used after it.
double offload_window(const config::Recipe& recipe, std::span<const TensorSpec> tensors);

// How much memory the recipe fields train.update and optim.clip_by need.

// The largest number of workers that average their gradients with each other at every step.
int64_t members_of_a_step(const config::Recipe& recipe);

// Bytes of gradients that a worker holds. `pass` is the memory that its architecture reports for a
// pass.
double gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                      const PassMemory& pass);

// Bytes of state that clipping keeps from step to step.
double clipping_bytes(const config::Recipe& recipe);

// The memory that a run needs on this machine, predicted from its recipe before anything is
// allocated.

// The part that is the state of the optimizer and the method.
inline constexpr const char* kStatePart = "optimizer and method";

// The need of a process with `workers_here` of the recipe's train.workers: the weights, gradients
// and state of all of them and, if the CPU computes, their activations and buffers (see memory.h).
// If a run needs more while it reads the model in train.init (train/initial_parameters.h), the part
// "start" says how much more. What it takes to merge factors into that model is not counted. The
// advice names the fields that need most. model.vocab must be set.
MemoryNeed run_memory(const config::Recipe& recipe, int64_t workers_here);
// The parts of that need alone, which are quicker to compute.
std::vector<MemoryPart> memory_parts(const config::Recipe& recipe, int64_t workers_here);

// About what a checkpoint of the run takes on disk: the trained weights, of each worker where they
// train independently, the state of the method and of all workers, and the base that an adapter was
// merged into. model.vocab must be set.
double checkpoint_bytes(const config::Recipe& recipe);

}  // namespace thinwire::method
