// What a pass over a Llama keeps in memory.
#include <algorithm>
#include <initializer_list>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/block_sizes.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;

const LlamaOptions& options_of(const ModelSpec& model) { return model.options<LlamaOptions>(); }

bool norms_after(const ModelSpec& model) {
  return options_of(model).norm_place == NormPlace::kAfter;
}

// What a token keeps: queries, keys, values, the heads' output and the softmax's sums; queries and
// keys before their norms, with 1 / rms of each.
double attention_bytes(const ModelSpec& model, double operand) {
  const LlamaHeads heads(model);
  const auto queries = static_cast<double>(heads.width());
  const auto keys = static_cast<double>(heads.keys_width());
  const double kept =
      operand * (2 * queries + 2 * keys) + kFloat * static_cast<double>(heads.heads);
  const QkNorm norm = options_of(model).qk_norm;
  if (norm == QkNorm::kNone) return kept;
  const double groups =
      norm == QkNorm::kAll ? 2 : static_cast<double>(heads.heads + heads.kv_heads);
  return kept + operand * (queries + keys) + kFloat * groups;
}

// What the backward pass needs of the blocks: the residual stream before both branches, what
// attention keeps, both halves of the MLP, and what norms keep: 1 / rms of the stream, or a branch
// before its norm with its 1 / rms. Blocks share one set of recomputed values.
double blocks_bytes(const ModelSpec& model, double tokens, double operand) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto layers = static_cast<double>(model.layers);
  const bool after = norms_after(model);
  const double stream = tokens * kFloat * (hidden + (after ? 0 : 1));
  const double branches = after ? 2 * tokens * (operand * hidden + kFloat) : 0;
  const double attention = tokens * attention_bytes(model, operand);
  const double mlp = stream + branches +
                     tokens * operand * 2 * static_cast<double>(options_of(model).intermediate);
  // Rounded inputs are kept beside one stream that they are widened into; the last block's is not
  // needed.
  const bool rounded = model.block_inputs == Precision::kBf16;
  const double inputs =
      rounded ? stream + (layers - 1) * tokens * operand * hidden : layers * stream;
  return inputs + (model.recompute == config::Recompute::kNone ? layers : 1) * attention +
         (model.recompute == config::Recompute::kBlock ? 1 : layers) * mlp;
}

// Buffers that all blocks share: the last norm's input, the gradient of the residual stream, a
// norm's output, a branch, the MLP's inner layer or its gradient, the gradients of the heads'
// output where that is not as wide as a branch and of a branch before its norm, and the batch
// itself.
double shared_bytes(const ModelSpec& model, double tokens, double operand) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto inner = static_cast<double>(options_of(model).intermediate);
  const int64_t width = LlamaHeads(model).width();
  double gradients = width == model.hidden ? 0 : static_cast<double>(width);
  if (norms_after(model)) gradients += hidden;
  if (operand < kFloat) gradients += hidden;  // that of the stream, rounded
  return tokens *
         (kFloat * (2 * hidden + 1) + operand * (2 * hidden + inner + gradients) + 4 * kFloat);
}

// Elements of the largest product of matrices of these heights and a common width that lie side by
// side: those without a gap between them are one (model/linear.h).
int64_t largest_product(std::initializer_list<int64_t> heights, int64_t width) {
  int64_t largest = 0, product = 0;
  for (const int64_t height : heights) {
    product += height * width;
    largest = std::max(largest, product);
    if (product % kArenaAlignment != 0) product = 0;
  }
  return largest;
}

// A tied embedding's gradient stays while the blocks' are formed.
double streamed_gradient_bytes(const ModelSpec& model) {
  const LlamaHeads heads(model);
  const int64_t c = model.hidden, f = options_of(model).intermediate;
  const int64_t queries = heads.width(), keys = heads.keys_width();
  const int64_t block = std::max({largest_product({queries, keys, keys}, c),
                                  largest_product({c}, queries), largest_product({f, f}, c)});
  const int64_t embedding = slab_rows(model.vocab, c, model.vocab_slabs) * c;
  const int64_t elements = model.tied ? padded_elements(block) + padded_elements(embedding)
                                      : padded_elements(std::max(block, embedding));
  return kFloat * static_cast<double>(elements);
}

// Columns of the widest norm, whose weight's gradient each thread sums by itself.
double widest_norm(const ModelSpec& model) {
  const bool all = options_of(model).qk_norm == QkNorm::kAll;
  const LlamaHeads heads(model);
  const int64_t head = options_of(model).qk_norm == QkNorm::kNone ? 0 : heads.size;
  return static_cast<double>(std::max(model.hidden, all ? heads.width() : head));
}

}  // namespace

PassMemory llama_memory(const ModelSpec& model, const PassShape& pass) {
  const auto sequence = static_cast<double>(pass.sequence);
  const auto head_size = static_cast<double>(LlamaHeads(model).size);
  const auto tokens = static_cast<double>(pass.rows * pass.sequence);
  const double rows = std::min<double>(sequence, kQueryBlock);
  const double attention = kFloat * (9 * sequence * head_size + rows * head_size +
                                     2 * rows * std::min<double>(sequence, kKeyBlock));
  return {.activations = blocks_bytes(model, tokens, pass.operand_bytes) +
                         shared_bytes(model, tokens, pass.operand_bytes) +
                         kFloat * sequence * head_size,
          .a_thread = attention + kFloat * widest_norm(model),
          .streamed_gradients = streamed_gradient_bytes(model)};
}

}  // namespace thinwire::method
