#include "thinwire/method/memory.h"

#include <algorithm>
#include <string>

#include "thinwire/base/block_sizes.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;
constexpr double kBf16 = 2;
constexpr double kPackBytes = 1.5e6;  // of a thread's matrix products (tensor/gemm_packed.cpp)

struct Shapes {
  double tokens, hidden, inner, heads, qkv, layers, head_size, sequence, vocab, threads;
};

Shapes shapes_of(const config::Recipe& recipe, int64_t rows) {
  const config::ModelSection& model = recipe.model;
  const config::TrainSection& train = recipe.train;
  const int64_t pass = train.microbatch == 0 ? rows : std::min(train.microbatch, rows);
  const int64_t kv = model.kv_heads == 0 ? model.heads : model.kv_heads;
  return {.tokens = static_cast<double>(pass * train.sequence),
          .hidden = static_cast<double>(model.hidden),
          .inner = static_cast<double>(model.intermediate),
          .heads = static_cast<double>(model.heads),
          .qkv = static_cast<double>((model.heads + 2 * kv) * model.head_size()),
          .layers = static_cast<double>(model.layers),
          .head_size = static_cast<double>(model.head_size()),
          .sequence = static_cast<double>(train.sequence),
          .vocab = static_cast<double>(model.vocab),
          .threads = static_cast<double>(train.threads)};
}

// What backward needs of the blocks: the residual stream before both norms with 1 / rms; queries,
// keys, values, attention's output and the softmax's sums; both halves of the MLP. Blocks share one
// set of what is computed again.
double blocks_bytes(const Shapes& s, double operand, const std::string& recompute) {
  const double stream = s.tokens * kFloat * (s.hidden + 1);
  const double attention = s.tokens * (operand * (s.qkv + s.hidden) + kFloat * s.heads);
  const double mlp = stream + s.tokens * operand * 2 * s.inner;
  return s.layers * stream + (recompute == "none" ? s.layers : 1) * attention +
         (recompute == "block" ? 1 : s.layers) * mlp;
}

// Buffers that all blocks share: the last norm's input, the gradient of the residual stream, a
// norm's output, a branch, the MLP's inner layer with its gradient, and the batch itself.
double shared_bytes(const Shapes& s, double operand) {
  const double rounded = operand == kBf16 ? kBf16 * s.hidden : 0;
  return s.tokens * (kFloat * (2 * s.hidden + 1) + operand * (2 * s.hidden + 2 * s.inner) +
                     rounded + 4 * kFloat);
}

double attention_bytes(const Shapes& s) {
  const double rows = std::min<double>(s.sequence, kQueryBlock);
  return kFloat * (9 * s.sequence * s.head_size + rows * s.head_size +
                   2 * rows * std::min<double>(s.sequence, kKeyBlock));
}

}  // namespace

double StepMemory::total() const {
  return weights + gradients + consensus + local + activations + cross_entropy + thread_buffers +
         program;
}

StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows) {
  const bool bf16 = recipe.train.precision == "bf16";
  const double operand = bf16 ? kBf16 : kFloat;
  const Shapes s = shapes_of(recipe, rows);
  const auto arena = static_cast<double>(arena_elements(tensors));
  const auto rows_a_thread = static_cast<double>(logit_rows(recipe.model.vocab));
  const double chunk = std::min(s.tokens, rows_a_thread * s.threads);
  return {.weights = arena * (kFloat + (bf16 ? kBf16 : 0)),
          .gradients = arena * kFloat,
          .consensus = state.consensus,
          .local = state.local,
          .activations = blocks_bytes(s, operand, recipe.model.recompute) +
                         shared_bytes(s, operand) + kFloat * s.sequence * s.head_size,
          .cross_entropy = chunk * (s.vocab * (kFloat + (bf16 ? kBf16 : 0)) +
                                    s.hidden * (kLogitParts * kFloat + operand)),
          .thread_buffers = s.threads * (attention_bytes(s) + kPackBytes + kFloat * s.hidden)};
}

}  // namespace thinwire::method
