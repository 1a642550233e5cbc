#include "thinwire/model/llama_engine.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/tensor/kernels.h"

namespace thinwire::model {
namespace {

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

}  // namespace

template <typename T>
LlamaEngine<T>::LlamaEngine(const ModelParts& parts)
    : Model(parts),
      model_(parts.model),
      where_(model_, parts.layout),
      recompute_(parse_recompute(model_.recompute)),
      params_(parts.params),
      threads_(parts.threads),
      max_tokens_(batch().max_tokens()),
      rope_(parts.sequence, model_.head_size(), model_.rope_theta),
      head_(model_.hidden, model_.vocab, max_tokens_, threads_),
      copy_(kIsFloat<T> ? 0 : parts.layout.total()),
      final_x_NC_(max_tokens_ * model_.hidden),
      final_rstd_N_(max_tokens_),
      hidden_NC_(max_tokens_ * model_.hidden),
      branch_NC_(max_tokens_ * model_.hidden),
      inner_NF_(max_tokens_ * model_.intermediate),
      dinner_NF_(max_tokens_ * model_.intermediate),
      dx_NC_(max_tokens_ * model_.hidden),
      dx_copy_NC_(kIsFloat<T> ? 0 : max_tokens_ * model_.hidden),
      dnorm_(threads_.size() * model_.hidden) {
  const int64_t n = max_tokens_, c = model_.hidden;
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    inputs_.push_back({Buffer<float>(n * c), Buffer<float>(n)});
    if (layer == 0 || recompute_ == Recompute::kNone) {
      attentions_.push_back({Buffer<T>(n * where_.attention.qkv_width()), Buffer<T>(n * c),
                             Buffer<float>(n * model_.heads)});
    }
    if (layer == 0 || recompute_ != Recompute::kBlock) {
      mlps_.push_back(
          {Buffer<float>(n * c), Buffer<float>(n), Buffer<T>(n * 2 * model_.intermediate)});
    }
  }
  for (int i = 0; i < threads_.size(); ++i) {
    scratch_.emplace_back(parts.sequence, model_.head_size());
  }
  if constexpr (!kIsFloat<T>) params_.keep_rounded(copy_.data());
  refresh();
}

template <typename T>
LlamaEngine<T>::~LlamaEngine() {
  if constexpr (!kIsFloat<T>) {
    if (params_.rounded() == copy_.data()) params_.keep_rounded(nullptr);
  }
}

template <typename T>
void LlamaEngine<T>::refresh() {
  if constexpr (!kIsFloat<T>) {
    if (params_.is_current(copy_.data())) return;
    threads_.for_ranges(params_.layout().total(), 64, [&](int64_t begin, int64_t end, int) {
      const int64_t count = end - begin;
      tensor::kernels<T>().store_rows(1, count, nullptr, parameters() + begin, count,
                                      copy_.data() + begin, count);
    });
    if (params_.rounded() == copy_.data()) params_.set_rounded_current();
  }
}

template <typename T>
const float* LlamaEngine<T>::parameters() const {
  return std::as_const(params_).all().data();
}

template <typename T>
const T* LlamaEngine<T>::weights() const {
  if constexpr (kIsFloat<T>) {
    return parameters();
  } else {
    return copy_.data();
  }
}

template <typename T>
T* LlamaEngine<T>::dx_operand() {
  if constexpr (kIsFloat<T>) {
    return dx_NC_.data();
  } else {
    return dx_copy_NC_.data();
  }
}

template <typename T>
template <typename Body>
void LlamaEngine<T>::over_tokens(const Body& body) {
  const TimedScope timed(times_.between);
  threads_.for_ranges(tokens_, 1,
                      [&](int64_t begin, int64_t end, int) { body(begin, end - begin); });
}

template <typename T>
template <typename Body>
void LlamaEngine<T>::over_heads(const Body& body) {
  const TimedScope timed(times_.attention);
  const int64_t heads = model_.kv_heads;
  threads_.for_ranges(rows_ * heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) body(i / heads, i % heads, scratch_[thread]);
  });
}

template <typename T>
void LlamaEngine<T>::begin_batch() {
  rows_ = batch().rows();
  sequence_ = batch().sequence();
  tokens_ = batch().tokens();
}

template <typename T>
void LlamaEngine<T>::embed() {
  const int64_t c = model_.hidden;
  const float* const table = parameters() + where_.embedding;
  over_tokens([&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      std::copy_n(table + batch().inputs()[i] * c, c, inputs_[0].x_NC.data() + i * c);
    }
  });
}

template <typename T>
void LlamaEngine<T>::norm(const float* x, bool add_branch, int64_t weight, float* sum,
                          float* rstd) {
  const int64_t c = model_.hidden;
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().add_rmsnorm(count, c, x + first * c,
                                     add_branch ? branch_NC_.data() + first * c : nullptr,
                                     parameters() + weight, static_cast<float>(model_.norm_eps),
                                     sum + first * c, rstd + first, hidden_NC_.data() + first * c);
  });
}

template <typename T>
void LlamaEngine<T>::forward_block(int64_t layer) {
  Input& input = inputs_[layer];
  const bool first = layer == 0;
  norm(first ? input.x_NC.data() : mlp(layer - 1).x_NC.data(), !first,
       where_.blocks[layer].attention_norm, input.x_NC.data(), input.rstd_N.data());
  attend(layer);
  forward_gate_up(layer);
  const int64_t f = model_.intermediate;
  over_tokens([&](int64_t begin, int64_t count) {
    tensor::kernels<T>().swiglu(count, f, mlp(layer).gate_up_N2F.data() + begin * 2 * f,
                                inner_NF_.data() + begin * f);
  });
  where_.blocks[layer].down.forward(threads_, tokens_, weights(), inner_NF_.data(),
                                    branch_NC_.data());
}

template <typename T>
void LlamaEngine<T>::attend(int64_t layer) {
  Attention& saved = attention(layer);
  where_.blocks[layer].qkv.forward(threads_, tokens_, weights(), hidden_NC_.data(),
                                   saved.qkv_NW.data());
  over_heads([&](int64_t row, int64_t head, tensor::AttentionScratch& scratch) {
    const int64_t start = row * sequence_;
    tensor::attention_forward<T>(where_.attention, rope_, sequence_, head,
                                 saved.qkv_NW.data() + start * where_.attention.qkv_width(),
                                 saved.out_NC.data() + start * model_.hidden,
                                 saved.log_sum_exp_NH.data() + start * model_.heads, scratch);
  });
}

template <typename T>
void LlamaEngine<T>::forward_gate_up(int64_t layer) {
  const BlockWeights& block = where_.blocks[layer];
  Mlp& saved = mlp(layer);
  block.o.forward(threads_, tokens_, weights(), attention(layer).out_NC.data(), branch_NC_.data());
  norm(inputs_[layer].x_NC.data(), true, block.mlp_norm, saved.x_NC.data(), saved.rstd_N.data());
  block.gate_up.forward(threads_, tokens_, weights(), hidden_NC_.data(), saved.gate_up_N2F.data());
}

template <typename T>
void LlamaEngine<T>::recompute(int64_t layer) {
  Input& input = inputs_[layer];
  norm(input.x_NC.data(), false, where_.blocks[layer].attention_norm, input.x_NC.data(),
       input.rstd_N.data());
  attend(layer);
  if (recompute_ == Recompute::kBlock) forward_gate_up(layer);
}

template <typename T>
void LlamaEngine<T>::forward() {
  embed();
  for (int64_t layer = 0; layer < model_.layers; ++layer) forward_block(layer);
  norm(mlp(model_.layers - 1).x_NC.data(), true, where_.final_norm, final_x_NC_.data(),
       final_rstd_N_.data());
}

template <typename T>
double LlamaEngine<T>::batch_loss() {
  const TimedScope timed(times_.all);
  begin_batch();
  forward();
  const TimedScope timed_head(times_.head);
  return head_.loss(tokens_, hidden_NC_.data(), weights() + where_.head, batch().targets(),
                    batch().weights());
}

template <typename T>
double LlamaEngine<T>::batch_gradients(float gradient_scale, tensor::Arena& gradients,
                                       const LayerReady& layer_ready, Gradients mode) {
  const TimedScope timed(times_.all);
  begin_batch();
  keep_ = mode == Gradients::kAdd ? 1.0f : 0.0f;
  if (mode == Gradients::kReplace) clear_others(gradients.all().data());
  forward();
  double sum = 0;
  {
    const TimedScope timed_head(times_.head);
    sum = head_.loss_and_gradients(tokens_, hidden_NC_.data(), weights() + where_.head,
                                   batch().targets(), batch().weights(), gradient_scale,
                                   branch_NC_.data(), keep_, gradients.all().data() + where_.head);
  }
  backward(gradients, layer_ready);
  return sum;
}

template <typename T>
void LlamaEngine<T>::clear_others(float* gradients) {
  const TimedScope timed(times_.between);
  for (const ArenaRange& range : where_.others) {
    threads_.for_ranges(range.end - range.begin, 1024, [&](int64_t begin, int64_t end, int) {
      std::fill(gradients + range.begin + begin, gradients + range.begin + end, 0.0f);
    });
  }
}

template <typename T>
void LlamaEngine<T>::backward_norm(const float* x, const float* rstd, int64_t weight,
                                   float* gradients) {
  const TimedScope timed(times_.between);
  const int64_t c = model_.hidden;
  std::fill_n(dnorm_.data(), threads_.size() * c, 0.0f);
  threads_.for_ranges(tokens_, 1, [&](int64_t begin, int64_t end, int thread) {
    tensor::kernels<T>().rmsnorm_backward(
        end - begin, c, x + begin * c, rstd + begin, parameters() + weight,
        branch_NC_.data() + begin * c, dx_NC_.data() + begin * c,
        kIsFloat<T> ? nullptr : dx_operand() + begin * c, dnorm_.data() + thread * c,
        hidden_NC_.data() + begin * c);
  });
  for (int thread = 0; thread < threads_.size(); ++thread) {
    tensor::kernels<T>().add(c, dnorm_.data() + thread * c, gradients + weight);
  }
}

template <typename T>
void LlamaEngine<T>::backward_mlp(int64_t layer, float* gradients) {
  const BlockWeights& block = where_.blocks[layer];
  Mlp& saved = mlp(layer);
  const int64_t f = model_.intermediate;
  block.down.backward_input(threads_, tokens_, weights(), static_cast<const T*>(dx_operand()),
                            dinner_NF_.data());
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().swiglu_backward(count, f, saved.gate_up_N2F.data() + first * 2 * f,
                                         dinner_NF_.data() + first * f,
                                         inner_NF_.data() + first * f);
  });
  block.down.backward_weight(threads_, tokens_, static_cast<const T*>(dx_operand()),
                             inner_NF_.data(), keep_, gradients);
  block.gate_up.backward_input(threads_, tokens_, weights(), saved.gate_up_N2F.data(),
                               branch_NC_.data());
  backward_norm(saved.x_NC.data(), saved.rstd_N.data(), block.mlp_norm, gradients);
  block.gate_up.backward_weight(threads_, tokens_, saved.gate_up_N2F.data(), hidden_NC_.data(),
                                keep_, gradients);
}

template <typename T>
void LlamaEngine<T>::backward_attention(int64_t layer, float* gradients) {
  const BlockWeights& block = where_.blocks[layer];
  Attention& saved = attention(layer);
  const T* const dx = dx_operand();
  block.o.backward_input(threads_, tokens_, weights(), dx, branch_NC_.data());
  block.o.backward_weight(threads_, tokens_, dx, saved.out_NC.data(), keep_, gradients);
  over_heads([&](int64_t row, int64_t head, tensor::AttentionScratch& scratch) {
    const int64_t start = row * sequence_;
    tensor::attention_backward<T>(where_.attention, rope_, sequence_, head,
                                  saved.qkv_NW.data() + start * where_.attention.qkv_width(),
                                  saved.out_NC.data() + start * model_.hidden,
                                  branch_NC_.data() + start * model_.hidden,
                                  saved.log_sum_exp_NH.data() + start * model_.heads, scratch);
  });
  block.qkv.backward_input(threads_, tokens_, weights(), saved.qkv_NW.data(), branch_NC_.data());
  backward_norm(inputs_[layer].x_NC.data(), inputs_[layer].rstd_N.data(), block.attention_norm,
                gradients);
  block.qkv.backward_weight(threads_, tokens_, saved.qkv_NW.data(), hidden_NC_.data(), keep_,
                            gradients);
}

template <typename T>
void LlamaEngine<T>::backward_embedding(float* gradients) {
  const TimedScope timed(times_.between);
  const int64_t c = model_.hidden;
  float* const table = gradients + where_.embedding;
  // Each thread adds a range of columns of all tokens, in the tokens' order.
  threads_.for_ranges(c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = 0; i < tokens_; ++i) {
      tensor::kernels<T>().add(end - begin, dx_NC_.data() + i * c + begin,
                               table + batch().inputs()[i] * c + begin);
    }
  });
}

template <typename T>
void LlamaEngine<T>::backward(tensor::Arena& gradients, const LayerReady& layer_ready) {
  float* const all = gradients.all().data();
  std::fill_n(dx_NC_.data(), tokens_ * model_.hidden, 0.0f);
  backward_norm(final_x_NC_.data(), final_rstd_N_.data(), where_.final_norm, all);
  for (int64_t layer = model_.layers - 1; layer >= 0; --layer) {
    // The shared buffers still hold the last block's.
    if (recompute_ != Recompute::kNone && layer + 1 < model_.layers) recompute(layer);
    backward_mlp(layer, all);
    backward_attention(layer, all);
    if (layer_ready) layer_ready(static_cast<int>(layer));
  }
  backward_embedding(all);
  if (layer_ready) layer_ready(-1);
}

template <typename T>
size_t LlamaEngine<T>::Input::bytes() const {
  return x_NC.bytes() + rstd_N.bytes();
}

template <typename T>
size_t LlamaEngine<T>::Attention::bytes() const {
  return qkv_NW.bytes() + out_NC.bytes() + log_sum_exp_NH.bytes();
}

template <typename T>
size_t LlamaEngine<T>::Mlp::bytes() const {
  return x_NC.bytes() + rstd_N.bytes() + gate_up_N2F.bytes();
}

template <typename T>
size_t LlamaEngine<T>::activation_bytes() const {
  size_t sum = rope_.bytes() + head_.bytes() + copy_.bytes() + final_x_NC_.bytes() +
               final_rstd_N_.bytes() + hidden_NC_.bytes() + branch_NC_.bytes() + inner_NF_.bytes() +
               dinner_NF_.bytes() + dx_NC_.bytes() + dx_copy_NC_.bytes() + dnorm_.bytes();
  for (const Input& part : inputs_) sum += part.bytes();
  for (const Attention& part : attentions_) sum += part.bytes();
  for (const Mlp& part : mlps_) sum += part.bytes();
  for (const auto& scratch : scratch_) sum += scratch.bytes();
  return sum + batch().bytes();
}

template class LlamaEngine<float>;
template class LlamaEngine<Bf16>;

}  // namespace thinwire::model
