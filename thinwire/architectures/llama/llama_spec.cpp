#include "thinwire/architectures/llama/llama_spec.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;

constexpr std::array<std::string_view, 13> kShapeFields = {
    "vocab",    "hidden",   "layers",   "heads",    "kv_heads", "intermediate", "tied",
    "head_dim", "qkv_bias", "out_bias", "mlp_bias", "qk_norm",  "norm_place"};
constexpr std::array<std::string_view, 13> kArithmeticFields = {
    "rope_theta",           "norm_eps",       "window",         "full_layers",
    "rope_scaling",         "rope_factor",    "rope_context",   "rope_low_frequency",
    "rope_high_frequency",  "rope_beta_fast", "rope_beta_slow", "rope_truncate",
    "rope_attention_factor"};

std::unique_ptr<config::Section> options() { return std::make_unique<LlamaOptions>(); }

const LlamaOptions& options_of(const ModelSpec& model) { return model.options<LlamaOptions>(); }

int64_t intermediate(const ModelSpec& model) { return options_of(model).intermediate; }

bool norms_after(const ModelSpec& model) {
  return options_of(model).norm_place == NormPlace::kAfter;
}

// The tensors of one block, in the order of the arena: a product's matrices side by side, so that
// they are one (model/linear.h), then their biases.
class BlockTensors {
 public:
  BlockTensors(std::vector<TensorSpec>& tensors, int layer)
      : tensors_(tensors), layer_(layer), prefix_(fmt::format("model.layers.{}.", layer)) {}

  void norm(std::string_view module, int64_t width) {
    add(module, "weight", {width}, TensorRole::kNorm);
  }
  struct Output {
    std::string_view module;
    int64_t width;
  };
  void product(std::initializer_list<Output> outputs, int64_t inputs, bool biases) {
    for (const auto& [module, width] : outputs) {
      add(module, "weight", {width, inputs}, TensorRole::kMatrix);
    }
    if (!biases) return;
    for (const auto& [module, width] : outputs) add(module, "bias", {width}, TensorRole::kBias);
  }

 private:
  void add(std::string_view module, std::string_view kind, Shape shape, TensorRole role) {
    tensors_.push_back(
        {fmt::format("{}{}.{}", prefix_, module, kind), std::move(shape), role, layer_});
  }

  std::vector<TensorSpec>& tensors_;
  int layer_;
  std::string prefix_;
};

void append_block(std::vector<TensorSpec>& tensors, const ModelSpec& model, int layer) {
  const LlamaOptions& options = options_of(model);
  const LlamaHeads heads(model);
  const int64_t hidden = model.hidden, inner = intermediate(model);
  const int64_t queries = heads.width(), keys = heads.keys_width();
  BlockTensors block(tensors, layer);
  if (!norms_after(model)) block.norm("input_layernorm", hidden);
  block.product(
      {{"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}},
      hidden, options.qkv_bias);
  if (options.qk_norm != QkNorm::kNone) {
    const bool all = options.qk_norm == QkNorm::kAll;
    block.norm("self_attn.q_norm", all ? queries : heads.size);
    block.norm("self_attn.k_norm", all ? keys : heads.size);
  }
  block.product({{"self_attn.o_proj", hidden}}, queries, options.out_bias);
  block.norm("post_attention_layernorm", hidden);
  block.product({{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}}, hidden, options.mlp_bias);
  block.product({{"mlp.down_proj", hidden}}, inner, options.mlp_bias);
  if (norms_after(model)) block.norm("post_feedforward_layernorm", hidden);
}

// Embedding, then the blocks, then final norm and (untied) head.
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
  if (tensor.role == TensorRole::kBias) return {};
  const bool adds_to_residual =
      tensor.name.ends_with("o_proj.weight") || tensor.name.ends_with("down_proj.weight");
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(model.layers));
  return {.deviation = model.init_std * (adds_to_residual ? residual : 1.0)};
}

// The positions that attention sees in all blocks together, on average over a row: half of them, or
// up to a window.
double positions_seen(const ModelSpec& model, int64_t sequence) {
  const auto length = static_cast<double>(sequence);
  double seen = 0;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const auto window = static_cast<double>(options_of(model).window_of(layer));
    seen += window > 0 && window < length ? window - window * window / (2 * length) : length / 2;
  }
  return seen;
}

// Attention takes 12 operations for each of its columns and positions seen.
double attention_flops(const ModelSpec& model, int64_t sequence) {
  return 12 * static_cast<double>(LlamaHeads(model).width()) * positions_seen(model, sequence);
}

double flops_per_token(const ModelSpec& model, int64_t sequence) {
  double active = 0;
  for (const TensorSpec& tensor : tensors(model)) {
    if (tensor.role == TensorRole::kMatrix) active += static_cast<double>(tensor.count());
  }
  active += static_cast<double>(model.vocab) * static_cast<double>(model.hidden);  // the head
  return 6.0 * active + attention_flops(model, sequence);
}

// What norms and biases of the options read and write of a token, forward and backward.
double option_bytes(const ModelSpec& model, double size) {
  const LlamaOptions& options = options_of(model);
  const LlamaHeads heads(model);
  const auto queries = static_cast<double>(heads.width());
  const auto keys = static_cast<double>(heads.keys_width());
  const auto c = static_cast<double>(model.hidden), f = static_cast<double>(intermediate(model));
  double columns = options.qkv_bias ? queries + 2 * keys : 0;
  columns += (options.out_bias ? c : 0) + (options.mlp_bias ? 2 * f + c : 0);
  double normed = options.qk_norm == QkNorm::kNone ? 0 : queries + keys;
  if (norms_after(model)) normed += 2 * c;
  return size * (3 * columns + 6 * normed);
}

TokenWork work(const ModelSpec& model, const PassShape& pass) {
  const auto c = static_cast<double>(model.hidden), f = static_cast<double>(intermediate(model));
  const auto layers = static_cast<double>(model.layers);
  const double size = pass.operand_bytes;
  const double head = 6 * c * static_cast<double>(model.vocab);
  // Two products of attention forward, five backward; six are counted.
  const double counted = attention_flops(model, pass.sequence);
  const double all = flops_per_token(model, pass.sequence);
  // Per block: two norms forward (x, branch, sum, out) and backward (x, dout, dx twice, out, in
  // bf16 also the rounded dx); SwiGLU reads 2 and writes 1 width forward, reads 3 and writes 3
  // backward.
  const double norms =
      2 * (8 * c + 2 * size * c) + 2 * (12 * c + (size < kFloat ? 3 : 2) * size * c);
  return {.products = all - head - counted,
          .attention = counted * 7 / 6,
          .head = head,
          .elementwise_bytes = layers * (norms + 9 * size * f + option_bytes(model, size))};
}

// Keys and values.
double kept_per_token(const ModelSpec& model) {
  return 2.0 * static_cast<double>(model.layers * LlamaHeads(model).keys_width());
}

int64_t head_size(const ModelSpec& model) { return LlamaHeads(model).size; }

int64_t outputs(const ModelSpec& model) { return model.vocab; }

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .sentence =
        "RMSNorm, rotary positions, grouped-query attention and SwiGLU, as in Llama, Mistral, "
        "Qwen2, Qwen3 and OLMo 2.",
    .options = options,
    .shape_fields = kShapeFields,
    .arithmetic_fields = kArithmeticFields,
    .check = check_llama,
    .tensors = tensors,
    .initial = initial,
    .flops_per_token = flops_per_token,
    .work = work,
    .memory = llama_memory,
    .kept_per_token = kept_per_token,
    .head_size = head_size,
    .outputs = outputs,
};

}  // namespace thinwire::method
