#include "thinwire/architectures/roberta/roberta_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"

namespace thinwire::method {
namespace {

constexpr double kFp32Bytes = 4;

constexpr std::array<std::string_view, 8> kRobertaShape = {
    "vocab", "hidden", "layers", "heads", "intermediate", "positions", "token_types", "labels"};
constexpr std::array<std::string_view, 1> kRobertaArithmetic = {"norm_eps"};

std::unique_ptr<config::Section> roberta_options() { return std::make_unique<RobertaOptions>(); }

const RobertaOptions& own(const ModelSpec& model) { return model.options<RobertaOptions>(); }

// Appends tensors whose names begin with a prefix.
class Modules {
 public:
  Modules(std::vector<TensorSpec>& tensors, std::string prefix, int layer)
      : tensors_(tensors), prefix_(std::move(prefix)), layer_(layer) {}

  void table(std::string_view module, int64_t rows, int64_t width) {
    add(module, "weight", {rows, width}, TensorRole::kEmbedding);
  }
  void norm(std::string_view module, int64_t width) {
    add(module, "weight", {width}, TensorRole::kNorm);
    add(module, "bias", {width}, TensorRole::kBias);
  }
  void product(std::string_view module, int64_t outputs, int64_t inputs,
               TensorRole role = TensorRole::kMatrix) {
    add(module, "weight", {outputs, inputs}, role);
    add(module, "bias", {outputs}, TensorRole::kBias);
  }
  // Queries, keys and values: matrices side by side, so that they are one product.
  void attention(int64_t width) {
    const std::array modules = {"attention.self.query", "attention.self.key",
                                "attention.self.value"};
    for (const char* module : modules) add(module, "weight", {width, width}, TensorRole::kMatrix);
    for (const char* module : modules) add(module, "bias", {width}, TensorRole::kBias);
  }

 private:
  void add(std::string_view module, std::string_view kind, Shape shape, TensorRole role) {
    tensors_.push_back(
        {fmt::format("{}{}.{}", prefix_, module, kind), std::move(shape), role, layer_});
  }

  std::vector<TensorSpec>& tensors_;
  const std::string prefix_;
  const int layer_;
};

std::vector<TensorSpec> roberta_tensors(const ModelSpec& model) {
  const RobertaOptions& options = own(model);
  if (model.vocab < 1) throw Error("[model] vocab must be known before the model has shapes");
  if (options.intermediate < 1) throw Error("[roberta] intermediate must be resolved, got 0");
  const int64_t hidden = model.hidden;
  std::vector<TensorSpec> tensors;
  Modules embeddings(tensors, "roberta.embeddings.", kEmbeddingLayer);
  embeddings.table("word_embeddings", model.vocab, hidden);
  embeddings.table("position_embeddings", options.positions + kRobertaFirstPosition, hidden);
  embeddings.table("token_type_embeddings", options.token_types, hidden);
  embeddings.norm("LayerNorm", hidden);
  for (int layer = 0; layer < model.layers; ++layer) {
    Modules block(tensors, fmt::format("roberta.encoder.layer.{}.", layer), layer);
    block.attention(hidden);
    block.product("attention.output.dense", hidden, hidden);
    block.norm("attention.output.LayerNorm", hidden);
    block.product("intermediate.dense", options.intermediate, hidden);
    block.product("output.dense", hidden, options.intermediate);
    block.norm("output.LayerNorm", hidden);
  }
  Modules classifier(tensors, "classifier.", kNoLayer);
  classifier.product("dense", hidden, hidden, TensorRole::kHead);
  classifier.product("out_proj", options.labels, hidden, TensorRole::kHead);
  return tensors;
}

InitialValues roberta_initial(const ModelSpec& model, const TensorSpec& tensor) {
  if (tensor.role == TensorRole::kNorm) return {.mean = 1};
  if (tensor.role == TensorRole::kBias) return {};
  return {.deviation = model.init_std};
}

// The parameters of all blocks that multiply a token.
double block_parameters(const ModelSpec& model) {
  const auto c = static_cast<double>(model.hidden),
             f = static_cast<double>(own(model).intermediate);
  return static_cast<double>(model.layers) * (4 * c * c + 2 * c * f);
}

// Attention takes 12 operations for each of its columns and positions seen, which are all.
double attention_operations(const ModelSpec& model, int64_t sequence) {
  return 12 * static_cast<double>(model.layers * model.hidden) * static_cast<double>(sequence);
}

// The head, which only one token of a text needs, does not count.
double roberta_flops(const ModelSpec& model, int64_t sequence) {
  return 6 * block_parameters(model) + attention_operations(model, sequence);
}

TokenWork roberta_work(const ModelSpec& model, const PassShape& pass) {
  const auto c = static_cast<double>(model.hidden),
             f = static_cast<double>(own(model).intermediate);
  const double size = pass.operand_bytes;
  // Per block: two norms forward (x, branch, normed, y, out) and backward (normed, dout, dx twice,
  // out, in bf16 also the rounded dx); GELU reads and writes a width forward, reads two and writes
  // two backward; biases are read and written forward and read backward.
  const double norms =
      2 * (12 * c + 2 * size * c) + 2 * (12 * c + (size < kFp32Bytes ? 3 : 2) * size * c);
  const double biases = 3 * size * (5 * c + f);
  return {.products = 6 * block_parameters(model),
          .attention = attention_operations(model, pass.sequence) * 7 / 6,
          .head = 0,
          .elementwise_bytes = static_cast<double>(model.layers) * (norms + 6 * size * f + biases)};
}

int64_t roberta_head_size(const ModelSpec& model) { return model.hidden / model.heads; }

PassMemory roberta_memory(const ModelSpec& model, const PassShape& pass) {
  const auto sequence = static_cast<double>(pass.sequence);
  const auto tokens = static_cast<double>(pass.rows * pass.sequence);
  const auto layers = static_cast<double>(model.layers), operand = pass.operand_bytes;
  const auto c = static_cast<double>(model.hidden),
             f = static_cast<double>(own(model).intermediate);
  const double stream = kFp32Bytes * (c + 1);  // what a norm keeps
  const bool rounded =
      model.recompute == config::Recompute::kBlock && model.block_inputs == Precision::kBf16;
  const double inputs = kFp32Bytes * (layers + 1) + (rounded ? kFp32Bytes * c + layers * operand * c
                                                             : (layers + 1) * kFp32Bytes * c);
  const double attention = operand * 4 * c + kFp32Bytes * static_cast<double>(model.heads);
  const double rest = stream + operand * f;  // of the norm after attention, and the GELU layer
  const double blocks = inputs +
                        (model.recompute == config::Recompute::kNone ? layers : 1) * attention +
                        (model.recompute == config::Recompute::kBlock ? 1 : layers) * rest;
  // The residual stream and its gradient, a norm's output, a branch, the inner layer, in bf16 the
  // rounded gradient; of the head three rows' widths; and the batch itself.
  const double shared =
      kFp32Bytes * 2 * c + operand * (5 * c + f + (operand < kFp32Bytes ? c : 0)) + 4 * kFp32Bytes;
  const auto head_size = static_cast<double>(roberta_head_size(model));
  const double rows = std::min<double>(sequence, kQueryBlock);
  const double scratch = kFp32Bytes * (9 * sequence * head_size + rows * head_size +
                                       2 * rows * std::min<double>(sequence, kKeyBlock));
  const int64_t table = std::max(model.vocab, own(model).positions + kRobertaFirstPosition);
  const int64_t largest =
      model.hidden * std::max({3 * model.hidden, own(model).intermediate, table});
  return {.activations = tokens * (blocks + shared) + kFp32Bytes * sequence * head_size,
          .a_thread = scratch + kFp32Bytes * 2 * c,
          .streamed_gradients = kFp32Bytes * static_cast<double>(padded_elements(largest))};
}

double nothing_kept(const ModelSpec&) { return 0; }  // it does not generate

int64_t roberta_positions(const ModelSpec& model) { return own(model).positions; }

int64_t roberta_outputs(const ModelSpec& model) { return own(model).labels; }

}  // namespace

void RobertaOptions::describe(config::Fields& fields) {
  fields.integer("intermediate", intermediate, "", 0, 1 << 22,
                 "Width of the GELU layer; 0 means 4 times hidden.");
  fields.integer("positions", positions, "tokens", 1, 1 << 24, "Length of the longest text.");
  fields.integer("token_types", token_types, "", 1, 1 << 16,
                 "Rows of the table of token types, of which only the first is used.");
  fields.number_above("norm_eps", norm_eps, "", 0, 1,
                      "Added to the variance in LayerNorm, so that it never divides by zero.");
  fields.integer("labels", labels, "", 1, 1 << 16,
                 "Classes that the head distinguishes; 1 means that it predicts a number.");
}

void RobertaOptions::fill_derived(const config::Recipe& recipe) {
  if (intermediate == 0) intermediate = 4 * recipe.model.hidden;
}

void check_roberta(const ModelSpec& model) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw UsageError(message);
  };
  require(model.hidden >= 1, fmt::format("[model] hidden must be >= 1, got {}", model.hidden));
  require(model.layers >= 1, fmt::format("[model] layers must be >= 1, got {}", model.layers));
  require(
      model.heads >= 1 && model.hidden % (2 * model.heads) == 0,
      fmt::format("[model] hidden must be an even multiple of heads, got hidden {} and heads {}",
                  model.hidden, model.heads));
}

const Architecture kRoberta = {
    .name = "roberta",
    .sentence =
        "RoBERTa with a classification head: bidirectional attention, LayerNorm after "
        "each branch, GELU. Learns the classes of texts (data.records = \"labels\"), or a number "
        "(\"numbers\").",
    .options = roberta_options,
    .shape_fields = kRobertaShape,
    .arithmetic_fields = kRobertaArithmetic,
    .check = check_roberta,
    .tensors = roberta_tensors,
    .initial = roberta_initial,
    .flops_per_token = roberta_flops,
    .work = roberta_work,
    .memory = roberta_memory,
    .kept_per_token = nothing_kept,
    .head_size = roberta_head_size,
    .outputs = roberta_outputs,
    .encodes = true,
    .positions = roberta_positions,
};

}  // namespace thinwire::method
