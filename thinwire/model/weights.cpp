#include "thinwire/model/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/tensor/gemm.h"

namespace thinwire::model {
namespace {

using tensor::Transpose;

int64_t offset(const tensor::Layout& layout, const std::string& name) {
  return layout.offset(layout.find(name));
}

std::vector<ArenaRange> outside_products(const LlamaWeights& weights, int64_t head_count,
                                         int64_t total) {
  std::vector<ArenaRange> products = {{weights.head, weights.head + head_count}, {total, total}};
  for (const BlockWeights& block : weights.blocks) {
    for (const Linear* linear : {&block.qkv, &block.o, &block.gate_up, &block.down}) {
      for (const Linear::Part& part : linear->parts()) {
        products.push_back({part.offset, part.offset + part.outputs * linear->inputs()});
      }
    }
  }
  std::sort(products.begin(), products.end(),
            [](const ArenaRange& a, const ArenaRange& b) { return a.begin < b.begin; });
  std::vector<ArenaRange> others;
  int64_t end = 0;
  for (const ArenaRange& product : products) {
    if (product.begin > end) others.push_back({end, product.begin});
    end = product.end;
  }
  return others;
}

}  // namespace

Linear::Linear(const tensor::Layout& layout, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const size_t index = layout.find(name);
    const Shape& shape = layout.specs()[index].shape;
    inputs_ = shape[1];
    const int64_t start = layout.offset(index);
    if (!parts_.empty() && parts_.back().offset + parts_.back().outputs * inputs_ == start) {
      parts_.back().outputs += shape[0];
    } else {
      parts_.push_back({start, outputs_, shape[0]});
    }
    outputs_ += shape[0];
  }
}

template <typename T>
void Linear::forward(ThreadPool& threads, int64_t tokens, const T* arena, const T* x, T* y) const {
  for (const Part& part : parts_) {
    tensor::gemm(threads, Transpose::kNo, Transpose::kYes, tokens, part.outputs, inputs_, x,
                 inputs_, arena + part.offset, inputs_, 0, y + part.column, outputs_);
  }
}

template <typename T>
void Linear::backward_input(ThreadPool& threads, int64_t tokens, const T* arena, const T* dy,
                            T* dx) const {
  float beta = 0;
  for (const Part& part : parts_) {
    tensor::gemm(threads, Transpose::kNo, Transpose::kNo, tokens, inputs_, part.outputs,
                 dy + part.column, outputs_, arena + part.offset, inputs_, beta, dx, inputs_);
    beta = 1;
  }
}

template <typename T>
void Linear::backward_weight(ThreadPool& threads, int64_t tokens, const T* dy, const T* x,
                             float keep, float* gradients) const {
  for (const Part& part : parts_) {
    tensor::gemm(threads, Transpose::kYes, Transpose::kNo, part.outputs, inputs_, tokens,
                 dy + part.column, outputs_, x, inputs_, keep, gradients + part.offset, inputs_);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                                  \
  template void Linear::forward(ThreadPool&, int64_t, const T*, const T*, T*) const;             \
  template void Linear::backward_input(ThreadPool&, int64_t, const T*, const T*, T*) const;      \
  template void Linear::backward_weight(ThreadPool&, int64_t, const T*, const T*, float, float*) \
      const
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

LlamaWeights::LlamaWeights(const config::ModelSection& model, const tensor::Layout& layout) {
  attention = {model.heads, model.kv_heads, model.head_size()};
  embedding = offset(layout, "model.embed_tokens.weight");
  final_norm = offset(layout, "model.norm.weight");
  head = model.tied ? embedding : offset(layout, "lm_head.weight");
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const auto name = [&](const char* part) {
      return fmt::format("model.layers.{}.{}.weight", layer, part);
    };
    blocks.push_back(
        {offset(layout, name("input_layernorm")), offset(layout, name("post_attention_layernorm")),
         Linear(layout,
                {name("self_attn.q_proj"), name("self_attn.k_proj"), name("self_attn.v_proj")}),
         Linear(layout, {name("self_attn.o_proj")}),
         Linear(layout, {name("mlp.gate_proj"), name("mlp.up_proj")}),
         Linear(layout, {name("mlp.down_proj")})});
  }
  others = outside_products(*this, model.vocab * model.hidden, layout.total());
}

void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    throw Error(fmt::format("token {} at index {} is outside the model's vocabulary of {}",
                            tokens[i], i, vocabulary));
  }
}

}  // namespace thinwire::model
