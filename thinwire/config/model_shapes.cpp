#include "thinwire/config/model_shapes.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"

namespace thinwire::config {
namespace {

void append_block(std::vector<TensorSpec>& tensors, const ModelSection& model, int layer) {
  const int64_t hidden = model.hidden;
  const int64_t inner = model.intermediate;
  const int64_t kv = (model.kv_heads == 0 ? model.heads : model.kv_heads) * model.head_size();
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

bool is_vocabulary_sized(const TensorSpec& tensor) {
  return tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
}

}  // namespace

std::vector<TensorSpec> llama_tensors(const ModelSection& model) {
  if (model.vocab < 1) throw Error("[model] vocab must be known before the model has shapes");
  if (model.intermediate < 1) throw Error("[model] intermediate must be resolved, got 0");
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

int64_t parameter_count(const std::vector<TensorSpec>& tensors) {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) count += tensor.count();
  return count;
}

int64_t non_embedding_count(const std::vector<TensorSpec>& tensors) {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!is_vocabulary_sized(tensor)) count += tensor.count();
  }
  return count;
}

double train_flops_per_token(const ModelSection& model, int64_t sequence) {
  double active = 0;
  for (const TensorSpec& tensor : llama_tensors(model)) {
    if (tensor.role == TensorRole::kMatrix) active += static_cast<double>(tensor.count());
  }
  active += static_cast<double>(model.vocab) * static_cast<double>(model.hidden);  // the head
  const double attention = 12.0 * static_cast<double>(model.layers) *
                           static_cast<double>(model.hidden) * static_cast<double>(sequence) / 2.0;
  return 6.0 * active + attention;
}

}  // namespace thinwire::config
