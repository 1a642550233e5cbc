// Pure facts of a model's architecture: which tensors it has and what each is for, how they begin,
// what a token costs, and what a training step keeps in memory. Trainer and planner read the same
// facts, so that a prediction cannot disagree with the run. The code that computes is in model/,
// its Hugging Face form in convert/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/model_section.h"

namespace thinwire::method {

// How a tensor's values are drawn for the start of training: normal(mean, deviation).
struct InitialValues {
  double mean = 0;
  double deviation = 0;  // 0: all values are the mean
};

// What one token costs forward and backward, in floating-point operations of the matrix products
// and in bytes that the passes between them read and write.
struct TokenWork {
  double products = 0;       // in the blocks
  double attention = 0;      // as computed: two causal products forward, five backward
  double head = 0;           // the last product
  double between_bytes = 0;  // norms, activations and additions
};

// A forward and backward pass of one worker.
struct PassShape {
  int64_t rows = 0;
  int64_t sequence = 0;      // tokens a row
  double operand_bytes = 4;  // of a value in the matrix products: 4 for fp32, 2 for bf16
};

// What such a pass keeps in memory on the processor, in bytes.
struct PassMemory {
  double activations = 0;  // what forward keeps for backward, and both passes' buffers
  double a_thread = 0;     // buffers that each thread has of its own
  // Where gradients are formed and handed over one at a time, the memory in which they are
  // (tensor/storage/gradient_sink.h).
  double streamed_gradients = 0;
};

struct Architecture {
  std::string_view name;      // value of model.architecture
  std::string_view sentence;  // for --explain and the docs
  // Fields of [model] that decide the tensors, and those that only change what is computed with
  // them. What is in neither list means nothing to this architecture, but for init_std and
  // recompute, which all have.
  std::span<const std::string_view> shape_fields;
  std::span<const std::string_view> arithmetic_fields;
  // Throws UsageError where fields of [model] contradict each other. vocab need not be known yet.
  void (*check)(const config::ModelSection& model);
  // In the order of the arena, by their Hugging Face names. Throws Error unless vocab and
  // intermediate are set.
  std::vector<TensorSpec> (*tensors)(const config::ModelSection& model);
  InitialValues (*initial)(const config::ModelSection& model, const TensorSpec& tensor);
  // As model FLOP/s are counted: 6 an active matrix parameter (head included, embedding look-up
  // not) plus attention's, computed again or not.
  double (*flops_per_token)(const config::ModelSection& model, int64_t sequence);
  TokenWork (*work)(const config::ModelSection& model, const PassShape& pass);
  PassMemory (*memory)(const config::ModelSection& model, const PassShape& pass);
};

}  // namespace thinwire::method
