#include "thinwire/method/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;

constexpr std::array<std::string_view, 7> kShapeFields = {
    "vocab", "hidden", "layers", "heads", "kv_heads", "intermediate", "tied"};
constexpr std::array<std::string_view, 2> kArithmeticFields = {"rope_theta", "norm_eps"};

std::unique_ptr<config::Section> options() { return std::make_unique<LlamaOptions>(); }

int64_t kv_heads(const ModelSpec& model) {
  const int64_t given = model.options<LlamaOptions>().kv_heads;
  return given == 0 ? model.heads : given;
}

int64_t intermediate(const ModelSpec& model) { return model.options<LlamaOptions>().intermediate; }

template <typename... Values>
void require(bool holds, fmt::format_string<Values...> message, Values&&... values) {
  if (!holds) throw UsageError(fmt::format(message, std::forward<Values>(values)...));
}

void check(const ModelSpec& model) {
  require(model.hidden >= 1, "[model] hidden must be >= 1, got {}", model.hidden);
  require(model.layers >= 1, "[model] layers must be >= 1, got {}", model.layers);
  require(model.heads >= 1 && model.hidden % model.heads == 0,
          "[model] hidden must be a multiple of heads, got hidden {} and heads {}", model.hidden,
          model.heads);
  require(kv_heads(model) >= 1 && model.heads % kv_heads(model) == 0,
          "[model] heads must be a multiple of [{}] kv_heads, got heads {} and kv_heads {}",
          model.architecture, model.heads, kv_heads(model));
  require(model.head_size() % 2 == 0,
          "[model] hidden / heads must be even, because the rotary embedding rotates pairs, got {} "
          "/ {} = {}",
          model.hidden, model.heads, model.head_size());
}

void append_block(std::vector<TensorSpec>& tensors, const ModelSpec& model, int layer) {
  const int64_t hidden = model.hidden;
  const int64_t inner = intermediate(model);
  const int64_t kv = kv_heads(model) * model.head_size();
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const auto add = [&](const char* name, Shape shape, TensorRole role) {
    tensors.push_back({prefix + name + ".weight", std::move(shape), role, layer});
  };
  add("input_layernorm", {hidden}, TensorRole::kNorm);
  add("self_attn.q_proj", {hidden, hidden}, TensorRole::kMatrix);
  add("self_attn.k_proj", {kv, hidden}, TensorRole::kMatrix);
  add("self_attn.v_proj", {kv, hidden}, TensorRole::kMatrix);
  add("self_attn.o_proj", {hidden, hidden}, TensorRole::kMatrix);
  add("post_attention_layernorm", {hidden}, TensorRole::kNorm);
  add("mlp.gate_proj", {inner, hidden}, TensorRole::kMatrix);
  add("mlp.up_proj", {inner, hidden}, TensorRole::kMatrix);
  add("mlp.down_proj", {hidden, inner}, TensorRole::kMatrix);
}

// Embedding, then for each block attention norm, q, k, v, o, MLP norm, gate, up, down, then final
// norm and (untied) head.
std::vector<TensorSpec> tensors(const ModelSpec& model) {
  if (model.vocab < 1) throw Error("[model] vocab must be known before the model has shapes");
  if (intermediate(model) < 1) {
    throw Error(fmt::format("[{}] intermediate must be resolved, got 0", model.architecture));
  }
  std::vector<TensorSpec> tensors;
  tensors.push_back(
      {"model.embed_tokens.weight", {model.vocab, model.hidden}, TensorRole::kEmbedding, -1});
  for (int layer = 0; layer < model.layers; ++layer) append_block(tensors, model, layer);
  tensors.push_back({"model.norm.weight", {model.hidden}, TensorRole::kNorm, -1});
  if (!model.tied) {
    tensors.push_back({"lm_head.weight", {model.vocab, model.hidden}, TensorRole::kHead, -1});
  }
  return tensors;
}

// The initial values of projections that add to the residual stream (o and down) are smaller the
// more of them there are.
InitialValues initial(const ModelSpec& model, const TensorSpec& tensor) {
  if (tensor.role == TensorRole::kNorm) return {.mean = 1};
  const bool adds_to_residual =
      tensor.name.ends_with("o_proj.weight") || tensor.name.ends_with("down_proj.weight");
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(model.layers));
  return {.deviation = model.init_std * (adds_to_residual ? residual : 1.0)};
}

// Attention takes 12 * layers * hidden * sequence / 2 (causal).
double flops_per_token(const ModelSpec& model, int64_t sequence) {
  double active = 0;
  for (const TensorSpec& tensor : tensors(model)) {
    if (tensor.role == TensorRole::kMatrix) active += static_cast<double>(tensor.count());
  }
  active += static_cast<double>(model.vocab) * static_cast<double>(model.hidden);  // the head
  const double attention = 12.0 * static_cast<double>(model.layers) *
                           static_cast<double>(model.hidden) * static_cast<double>(sequence) / 2.0;
  return 6.0 * active + attention;
}

TokenWork work(const ModelSpec& model, const PassShape& pass) {
  const auto c = static_cast<double>(model.hidden), f = static_cast<double>(intermediate(model));
  const auto layers = static_cast<double>(model.layers);
  const auto length = static_cast<double>(pass.sequence);
  const double size = pass.operand_bytes;
  const double head = 6 * c * static_cast<double>(model.vocab);
  // Two products of causal attention forward, five backward, half of each above the diagonal.
  const double attention = 7 * layers * c * length;
  const double all = flops_per_token(model, pass.sequence);
  // Per block: two norms forward (x, branch, sum, out) and backward (x, dout, dx twice, out, in
  // bf16 also the rounded dx); SwiGLU reads 2 and writes 1 width forward, reads 3 and writes 3
  // backward.
  const double norms =
      2 * (8 * c + 2 * size * c) + 2 * (12 * c + (size < kFloat ? 3 : 2) * size * c);
  return {.products = all - head - 6 * layers * c * length,
          .attention = attention,
          .head = head,
          .between_bytes = layers * (norms + 9 * size * f)};
}

// What the backward pass needs of the blocks: the residual stream before both norms with 1 / rms;
// queries, keys, values, attention's output and the softmax's sums; both halves of the MLP. Blocks
// share one set of recomputed values.
double blocks_bytes(const ModelSpec& model, double tokens, double operand) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto layers = static_cast<double>(model.layers);
  const auto qkv = static_cast<double>((model.heads + 2 * kv_heads(model)) * model.head_size());
  const double stream = tokens * kFloat * (hidden + 1);
  const double attention =
      tokens * (operand * (qkv + hidden) + kFloat * static_cast<double>(model.heads));
  const double mlp = stream + tokens * operand * 2 * static_cast<double>(intermediate(model));
  return layers * stream + (model.recompute == "none" ? layers : 1) * attention +
         (model.recompute == "block" ? 1 : layers) * mlp;
}

// Buffers that all blocks share: the last norm's input, the gradient of the residual stream, a
// norm's output, a branch, the MLP's inner layer with its gradient, and the batch itself.
double shared_bytes(const ModelSpec& model, double tokens, double operand) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto inner = static_cast<double>(intermediate(model));
  const double rounded = operand < kFloat ? operand * hidden : 0;
  return tokens *
         (kFloat * (2 * hidden + 1) + operand * (2 * hidden + 2 * inner) + rounded + 4 * kFloat);
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
  const int64_t c = model.hidden, f = intermediate(model);
  const int64_t keys = kv_heads(model) * model.head_size();
  const int64_t block = std::max({largest_product({c, keys, keys}, c), largest_product({f, f}, c)});
  const int64_t embedding = model.vocab * c;
  const int64_t elements = model.tied ? padded_elements(block) + padded_elements(embedding)
                                      : padded_elements(std::max(block, embedding));
  return kFloat * static_cast<double>(elements);
}

PassMemory memory(const ModelSpec& model, const PassShape& pass) {
  const auto sequence = static_cast<double>(pass.sequence);
  const auto head_size = static_cast<double>(model.head_size());
  const auto tokens = static_cast<double>(pass.rows * pass.sequence);
  const double rows = std::min<double>(sequence, kQueryBlock);
  const double attention = kFloat * (9 * sequence * head_size + rows * head_size +
                                     2 * rows * std::min<double>(sequence, kKeyBlock));
  return {.activations = blocks_bytes(model, tokens, pass.operand_bytes) +
                         shared_bytes(model, tokens, pass.operand_bytes) +
                         kFloat * sequence * head_size,
          .a_thread = attention + kFloat * static_cast<double>(model.hidden),
          .streamed_gradients = streamed_gradient_bytes(model)};
}

// Keys and values.
double kept_a_token(const ModelSpec& model) {
  return 2.0 * static_cast<double>(model.layers * kv_heads(model) * model.head_size());
}

}  // namespace

void LlamaOptions::describe(config::Fields& fields) {
  fields.integer("kv_heads", kv_heads, "", 0, 1 << 16,
                 "Key and value heads of grouped-query attention; 0 means as many as heads.");
  fields.integer("intermediate", intermediate, "", 0, 1 << 22,
                 "Width of the SwiGLU layer; 0 means 8/3 of hidden, rounded up to a multiple of "
                 "64.");
  fields.number_above("rope_theta", rope_theta, "", 1, config::kInfinity,
                      "Base of the wavelengths of the rotary position embedding.");
  fields.number_above("norm_eps", norm_eps, "", 0, 1,
                      "Added to the mean square in RMSNorm, so that it never divides by zero.");
}

void LlamaOptions::fill_derived(const config::Recipe& recipe) {
  if (kv_heads == 0) kv_heads = recipe.model.heads;
  if (intermediate == 0) intermediate = (recipe.model.hidden * 8 / 3 + 63) / 64 * 64;
}

const Architecture kLlama = {
    .name = "llama",
    .sentence = "RMSNorm, rotary positions, grouped-query attention and SwiGLU; no biases.",
    .options = options,
    .shape_fields = kShapeFields,
    .arithmetic_fields = kArithmeticFields,
    .check = check,
    .tensors = tensors,
    .initial = initial,
    .flops_per_token = flops_per_token,
    .work = work,
    .memory = memory,
    .kept_a_token = kept_a_token,
};

}  // namespace thinwire::method
