#include "thinwire/method/memory/memory.h"

#include <algorithm>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/memory/formats.h"
#include "thinwire/method/memory/offload.h"
#include "thinwire/method/memory/slabs.h"
#include "thinwire/method/memory/updates.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;
constexpr double kBf16 = 2;
constexpr double kPackBytes =
    1.5e6;  // of a thread's matrix products (tensor/products/gemm_packed.cpp)

// One chunk of logits, their gradient, and what the products back to the model's width need.
double loss_bytes(const config::Recipe& recipe, double tokens, double operand) {
  const int64_t outputs = find_architecture(recipe.model.architecture).outputs(ModelSpec(recipe));
  const auto vocab = static_cast<double>(outputs);
  const auto hidden = static_cast<double>(recipe.model.hidden);
  const auto rows_per_thread = static_cast<double>(logit_rows(outputs));
  const double chunk =
      std::min(tokens, rows_per_thread * static_cast<double>(recipe.train.threads));
  return chunk * (vocab * kFloat + hidden * (kLogitParts * kFloat + operand));
}

std::vector<TensorSpec> frozen_tensors(const config::Recipe& recipe) {
  return adapted_tensors(ModelSpec(recipe), recipe.adapter).frozen;
}

// Of the copy that products in bf16 need beside weights in fp32.
double copy_beside(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                   WeightFormat format) {
  const bool none = recipe.train.precision != "bf16" || format == WeightFormat::kBf16;
  return none ? 0 : copy_bytes(recipe, tensors);
}

// The products with the factors (model/adapter_products.h).
double adapter_bytes(const config::Recipe& recipe, double tokens, double operand) {
  if (!is_adapted(recipe.adapter)) return 0;
  const double wide = operand < kFloat ? kFloat : 0;
  return tokens * static_cast<double>(recipe.adapter.rank) * (2 * operand + wide);
}

// What streamed gradients need where only a part of the tensors is trained.
double streamed_bytes(std::span<const TensorSpec> trained, int64_t slabs) {
  int64_t largest = 0;
  for (const TensorSpec& tensor : trained) {
    largest = std::max(largest, padded_elements(formed_elements(tensor, slabs)));
  }
  return kFloat * static_cast<double>(largest);
}

// Only copies of weights that products read stay in memory, and what is passed over as a whole
// between steps. What optimizers keep is the member's own where it trains alone.
void offload(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
             StepMemory& memory) {
  if (find_method(recipe.sync.method).keeps_bf16_weights) {  // changes them tensor by tensor
    memory.weights = copy_beside(recipe, tensors, trained_format(recipe));
  }
  if (!find_adapter(recipe.adapter.kind).merges) {
    memory.frozen = copy_beside(recipe, frozen_tensors(recipe), recipe.train.weights);
  }
  memory.consensus -= outer_bytes(recipe, tensors);
  const StateBytes state = optimizer_state(recipe, tensors);
  const double own = std::min(memory.local, state.consensus + state.local);
  memory.local -= own;
  memory.consensus -= state.consensus + state.local - own;
  memory.window = offload_window(recipe, tensors);
}

}  // namespace

double weight_bytes(std::span<const TensorSpec> tensors, WeightFormat format) {
  const double each = format == WeightFormat::kBf16 ? kBf16 : kFloat;
  return each * static_cast<double>(arena_elements(tensors));
}

double copy_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const std::vector<bool> multiplied = multiplied_tensors(ModelSpec(recipe), tensors);
  int64_t elements = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (multiplied[i]) elements += arena_elements(tensors.subspan(i, 1));
  }
  return kBf16 * static_cast<double>(elements);
}

double shared_frozen_bytes(const config::Recipe& recipe) {
  if (find_adapter(recipe.adapter.kind).merges || recipe.train.offload) return 0;
  return weight_bytes(frozen_tensors(recipe), recipe.train.weights);
}

double step_code_bytes(const config::Recipe& recipe) {
  return recipe.train.precision == "bf16" ? 20e6 : 10e6;
}

double StepMemory::total() const {
  return weights + frozen + gradients + consensus + local + sums + window + activations +
         cross_entropy + thread_buffers + program;
}

StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows) {
  const bool bf16 = recipe.train.precision == "bf16";
  const config::TrainSection& train = recipe.train;
  const PassShape pass = {train.microbatch == 0 ? rows : std::min(train.microbatch, rows),
                          train.sequence, bf16 ? kBf16 : kFloat};
  PassMemory passes = find_architecture(recipe.model.architecture).memory(ModelSpec(recipe), pass);
  if (is_adapted(recipe.adapter)) {
    passes.streamed_gradients = streamed_bytes(tensors, recipe.model.vocab_slabs);
  }
  const auto tokens = static_cast<double>(pass.rows * pass.sequence);
  const WeightFormat trained = trained_format(recipe);
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  StepMemory memory = {
      .weights = weight_bytes(tensors, trained) + copy_beside(recipe, tensors, trained),
      .frozen = weight_bytes(frozen, train.weights) + copy_beside(recipe, frozen, train.weights),
      .gradients = gradient_bytes(recipe, tensors, passes),
      .consensus = state.consensus,
      .local = state.local,
      .sums = state.sums,
      .activations = passes.activations + adapter_bytes(recipe, tokens, pass.operand_bytes),
      .cross_entropy = loss_bytes(recipe, tokens, pass.operand_bytes),
      .thread_buffers = static_cast<double>(train.threads) * (passes.a_thread + kPackBytes)};
  if (train.offload) offload(recipe, tensors, memory);
  return memory;
}

}  // namespace thinwire::method
