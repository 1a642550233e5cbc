#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/model/torch_parts.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {

template <typename T>
class TorchAttention<T>::State {
 public:
  State(const tensor::DevicePlace& place, ThreadPool& threads) : place_(place), threads_(threads) {}

  void plan(int64_t positions, const tensor::AttentionShape& shape, const RopeSpec& rope) {
    positions_ = positions;
    head_size_ = shape.head_size;
    rope_spec_ = rope;
    make_rope(1);
  }

  void begin_batch(const Batch& batch, bool keep) {
    rows_ = batch.rows();
    sequence_ = batch.sequence();
    keep_ = keep;
    if (!rope_->is_for(sequence_)) make_rope(sequence_);
    if (same_document_.defined() || batch.is_divided()) mask_.reset();
    same_document_.reset();
    if (batch.is_divided()) divide(batch.documents());
  }

  at::Tensor forward(int key, const tensor::AttentionShape& shape, const at::Tensor& qkv) {
    rotate(shape, qkv, 1);
    const Attended attended = attend(shape, qkv);
    if (keep_) attended_[key] = attended;
    return attended.out.detach().transpose(1, 2).reshape({rows_ * sequence_, shape.width()});
  }

  at::Tensor backward(int key, const tensor::AttentionShape& shape, const at::Tensor& dout) {
    const Attended& kept = attended_.at(key);
    const std::vector<at::Tensor> gradients = torch::autograd::grad(
        {kept.out}, {kept.q, kept.k, kept.v}, {heads_of(shape, dout, 0, shape.heads)});
    at::Tensor dqkv = at::empty({rows_ * sequence_, shape.qkv_width()}, dout.options());
    int64_t first = 0;
    for (const at::Tensor& gradient : gradients) {
      heads_of(shape, dqkv, first, gradient.size(1)).copy_(gradient);
      first += gradient.size(1);
    }
    rotate(shape, dqkv, -1);
    return dqkv;
  }

  void drop(int key) { attended_.erase(key); }

  size_t bytes() const {
    return cosine_.nbytes() + sine_.nbytes() + (mask_.defined() ? mask_.nbytes() : 0) +
           (same_document_.defined() ? same_document_.nbytes() : 0);
  }

 private:
  // What autograd needs: [rows, heads, positions, head size].
  struct Attended {
    at::Tensor q, k, v, out;
  };

  at::Tensor to_device(const float* values, int64_t count) const {
    return at::from_blob(const_cast<float*>(values), {count}, at::TensorOptions(at::kFloat))
        .to(torch_device(place_), /*non_blocking=*/false, /*copy=*/true);
  }

  // The rotary table of texts of `length` tokens.
  void make_rope(int64_t length) {
    rope_.emplace(positions_, head_size_, rope_spec_, length);
    const int64_t angles = positions_ * head_size_ / 2;
    cosine_ = to_device(rope_->cosine(0), angles);
    sine_ = to_device(rope_->sine(0), angles);
  }

  void rotate(const tensor::AttentionShape& shape, const at::Tensor& qkv, float direction) {
    tensor::launch(
        place_, threads_,
        tensor::Rotate<T>{sequence_, shape.heads + shape.kv_heads, shape.head_size / 2,
                          shape.qkv_width(), direction, static_cast<float*>(cosine_.data_ptr()),
                          static_cast<float*>(sine_.data_ptr()), static_cast<T*>(qkv.data_ptr())},
        rows_ * sequence_);
  }

  // `count` heads of values [tokens, width], the first of which is `first`, as [rows, count,
  // positions, head size].
  at::Tensor heads_of(const tensor::AttentionShape& shape, const at::Tensor& values, int64_t first,
                      int64_t count) {
    return values.view({rows_, sequence_, -1, shape.head_size})
        .narrow(2, first, count)
        .transpose(1, 2);
  }

  // Repeats each key or value head for all query heads that share it.
  at::Tensor for_queries(const tensor::AttentionShape& shape, const at::Tensor& heads) {
    if (shape.group() == 1) return heads;
    return heads.unsqueeze(2)
        .expand({rows_, shape.kv_heads, shape.group(), sequence_, shape.head_size})
        .reshape({rows_, shape.heads, sequence_, shape.head_size});
  }

  Attended attend(const tensor::AttentionShape& shape, const at::Tensor& qkv) {
    const c10::AutoGradMode autograd(keep_);
    const auto part = [&](int64_t first, int64_t count) {
      return heads_of(shape, qkv, first, count).detach().set_requires_grad(keep_);
    };
    Attended a{part(0, shape.heads),
               part(shape.heads, shape.kv_heads),
               part(shape.heads + shape.kv_heads, shape.kv_heads),
               {}};
    const at::Tensor seen = mask_of(shape);
    const std::optional<at::Tensor> mask = seen.defined() ? std::optional(seen) : std::nullopt;
    a.out = at::scaled_dot_product_attention(
        a.q, for_queries(shape, a.k), for_queries(shape, a.v), mask, 0.0,
        /*is_causal=*/shape.causal && !mask.has_value(), static_cast<double>(shape.score_scale()));
    return a;
  }

  // Sets same_document_ [row, 1, to, from].
  void divide(const std::vector<Document>& documents) {
    at::Tensor numbers = at::empty({rows_, sequence_}, at::TensorOptions(at::kLong));
    auto* const number = numbers.data_ptr<int64_t>();
    for (size_t i = 0; i < documents.size(); ++i) {
      std::fill_n(number + documents[i].first, documents[i].count, static_cast<int64_t>(i));
    }
    numbers = numbers.to(cosine_.device());
    same_document_ = numbers.unsqueeze(2).eq(numbers.unsqueeze(1)).unsqueeze(1);
  }

  // Which positions see which, unless each sees all before it in the row: [to, from], or [row, 1,
  // to, from].
  at::Tensor mask_of(const tensor::AttentionShape& shape) {
    const bool windowed = shape.reach() < sequence_;
    if (!windowed && !same_document_.defined()) return {};
    if (!mask_.defined() || mask_.size(-1) != sequence_ || masked_ != shape.window) {
      mask_ = at::ones({sequence_, sequence_}, cosine_.options().dtype(at::kBool));
      if (shape.causal) mask_ = mask_.tril();
      if (windowed) mask_ = mask_.triu(1 - shape.window);
      if (same_document_.defined()) mask_ = mask_.logical_and(same_document_);
      masked_ = shape.window;
    }
    return mask_;
  }

  const tensor::DevicePlace place_;
  ThreadPool& threads_;
  int64_t positions_ = 0, head_size_ = 0;
  RopeSpec rope_spec_;
  std::optional<tensor::RopeTable> rope_;
  at::Tensor cosine_, sine_;
  at::Tensor mask_;
  at::Tensor same_document_;  // of the current batch, if its rows are divided
  int64_t masked_ = 0;        // the window of the mask
  int64_t rows_ = 0, sequence_ = 0;
  bool keep_ = false;
  std::map<int, Attended> attended_;
};

template <typename T>
TorchAttention<T>::TorchAttention(const tensor::DevicePlace& place, ThreadPool& threads)
    : state_(std::make_unique<State>(place, threads)) {}

template <typename T>
TorchAttention<T>::~TorchAttention() = default;

template <typename T>
void TorchAttention<T>::plan(int64_t positions, const tensor::AttentionShape& shape,
                             const RopeSpec& rope) {
  state_->plan(positions, shape, rope);
}

template <typename T>
void TorchAttention<T>::begin_batch(const Batch& batch, bool keep) {
  state_->begin_batch(batch, keep);
}

template <typename T>
at::Tensor TorchAttention<T>::forward(int key, const tensor::AttentionShape& shape,
                                      const at::Tensor& qkv) {
  return state_->forward(key, shape, qkv);
}

template <typename T>
at::Tensor TorchAttention<T>::backward(int key, const tensor::AttentionShape& shape,
                                       const at::Tensor& dout) {
  return state_->backward(key, shape, dout);
}

template <typename T>
void TorchAttention<T>::drop(int key) {
  state_->drop(key);
}

template <typename T>
size_t TorchAttention<T>::bytes() const {
  return state_->bytes();
}

template class TorchAttention<float>;
template class TorchAttention<Bf16>;

}  // namespace thinwire::model
