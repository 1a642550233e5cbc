#include "thinwire/method/memory.h"

#include <algorithm>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/architectures.h"
#include "thinwire/method/updates.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;
constexpr double kBf16 = 2;
constexpr double kPackBytes =
    1.5e6;  // of a thread's matrix products (tensor/products/gemm_packed.cpp)

// One chunk of logits, their gradient, and what the products back to the model's width need.
double loss_bytes(const config::Recipe& recipe, double tokens, double operand) {
  const auto vocab = static_cast<double>(recipe.model.vocab);
  const auto hidden = static_cast<double>(recipe.model.hidden);
  const auto rows_a_thread = static_cast<double>(logit_rows(recipe.model.vocab));
  const double chunk = std::min(tokens, rows_a_thread * static_cast<double>(recipe.train.threads));
  return chunk * (vocab * (kFloat + (operand < kFloat ? operand : 0)) +
                  hidden * (kLogitParts * kFloat + operand));
}

}  // namespace

double StepMemory::total() const {
  return weights + gradients + consensus + local + sums + activations + cross_entropy +
         thread_buffers + program;
}

StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows) {
  const bool bf16 = recipe.train.precision == "bf16";
  const config::TrainSection& train = recipe.train;
  const PassShape pass = {train.microbatch == 0 ? rows : std::min(train.microbatch, rows),
                          train.sequence, bf16 ? kBf16 : kFloat};
  const PassMemory passes =
      find_architecture(recipe.model.architecture).memory(ModelSpec(recipe), pass);
  const auto arena = static_cast<double>(arena_elements(tensors));
  return {.weights = arena * (kFloat + (bf16 ? kBf16 : 0)),
          .gradients = gradient_bytes(recipe, tensors, passes),
          .consensus = state.consensus,
          .local = state.local,
          .sums = state.sums,
          .activations = passes.activations,
          .cross_entropy = loss_bytes(recipe, static_cast<double>(pass.rows * pass.sequence),
                                      pass.operand_bytes),
          .thread_buffers = static_cast<double>(train.threads) * (passes.a_thread + kPackBytes)};
}

}  // namespace thinwire::method
