#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/model/torch_parts.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {

// Shape suffixes: G key/value heads, P positions (the context), D head size, S new tokens of a
// segment, Q the queries that share a key/value head, of all new tokens: head after head.
class TorchCachedAttention::State {
 public:
  State(const tensor::DevicePlace& place, ThreadPool& threads, int64_t context)
      : place_(place),
        threads_(threads),
        context_(context),
        fp32_(at::TensorOptions(at::kFloat).device(torch_device(place))) {}

  void plan(int64_t layers, const tensor::AttentionShape& shape, const RopeSpec& rope) {
    head_size_ = shape.head_size;
    rope_spec_ = rope;
    make_rope(1);
    caches_.clear();
    const auto empty = [&] { return at::empty({shape.kv_heads, context_, head_size_}, fp32_); };
    try {
      for (int64_t layer = 0; layer < layers; ++layer) caches_.push_back({empty(), empty()});
    } catch (const c10::OutOfMemoryError& error) {
      throw Error("the keys and values of a context of " + std::to_string(context_) +
                  " tokens: " + error.what_without_backtrace());
    }
  }

  void grow_to(int64_t length) {
    if (!rope_->is_for(length)) make_rope(length);
  }

  void begin_tokens(std::vector<Segment> segments) { segments_ = std::move(segments); }

  at::Tensor forward(int64_t layer, const tensor::AttentionShape& shape, const at::Tensor& qkv) {
    at::Tensor out = at::empty({qkv.size(0), shape.width()}, fp32_);
    for (const Segment& segment : segments_) {
      const at::Tensor own = qkv.narrow(0, segment.row, segment.count);
      rotate(shape, segment, own);
      out.narrow(0, segment.row, segment.count)
          .copy_(attend(caches_[static_cast<size_t>(layer)], shape, segment, own));
    }
    return out;
  }

 private:
  struct Cache {
    at::Tensor keys_GPD, values_GPD;  // keys are rotated
  };

  at::Tensor to_device(const float* values, int64_t count) const {
    return at::from_blob(const_cast<float*>(values), {count}, at::TensorOptions(at::kFloat))
        .to(fp32_.device(), /*non_blocking=*/false, /*copy=*/true);
  }

  void make_rope(int64_t length) {
    rope_.emplace(context_, head_size_, rope_spec_, length);
    const int64_t angles = context_ * head_size_ / 2;
    cosine_ = to_device(rope_->cosine(0), angles);
    sine_ = to_device(rope_->sine(0), angles);
  }

  void rotate(const tensor::AttentionShape& shape, const Segment& segment, const at::Tensor& qkv) {
    const int64_t half = head_size_ / 2, first = segment.position * half;
    tensor::launch(place_, threads_,
                   tensor::Rotate<float>{segment.count, shape.heads + shape.kv_heads, half,
                                         shape.qkv_width(), 1, cosine_.data_ptr<float>() + first,
                                         sine_.data_ptr<float>() + first, qkv.data_ptr<float>()},
                   segment.count);
  }

  // Heads [first, first + count) of the new tokens, as [count, S, D].
  at::Tensor heads_of(const at::Tensor& qkv, int64_t first, int64_t count) const {
    return qkv.view({qkv.size(0), -1, head_size_}).narrow(1, first, count).transpose(0, 1);
  }

  at::Tensor attend(Cache& cache, const tensor::AttentionShape& shape, const Segment& segment,
                    const at::Tensor& qkv) {
    const auto [row, count, position] = segment;
    const int64_t first = shape.first_seen(position), seen = position + count - first;
    const auto kept = [&](at::Tensor& all, int64_t head) {
      all.narrow(1, position, count).copy_(heads_of(qkv, head, shape.kv_heads));
      return all.narrow(1, first, seen).unsqueeze(0);
    };
    const at::Tensor keys = kept(cache.keys_GPD, shape.heads);
    const at::Tensor values = kept(cache.values_GPD, shape.heads + shape.kv_heads);
    const at::Tensor queries =
        heads_of(qkv, 0, shape.heads).reshape({1, shape.kv_heads, -1, head_size_});
    const at::Tensor out = at::scaled_dot_product_attention(
        queries, keys, values, mask_of(shape, segment, first, seen), 0.0, /*is_causal=*/false,
        static_cast<double>(shape.score_scale()));
    return out.reshape({shape.heads, count, head_size_})
        .transpose(0, 1)
        .reshape({count, shape.width()});
  }

  // Which of the positions from `first` on the queries see [Q, seen]; none if that is all of them.
  std::optional<at::Tensor> mask_of(const tensor::AttentionShape& shape, const Segment& segment,
                                    int64_t first, int64_t seen) const {
    if (segment.count == 1) return std::nullopt;
    const int64_t before = segment.position - first;
    at::Tensor mask = at::ones({segment.count, seen}, fp32_.dtype(at::kBool)).tril(before);
    if (shape.window > 0) mask = mask.triu(before - shape.window + 1);
    return mask.repeat({shape.group(), 1});
  }

  const tensor::DevicePlace place_;
  ThreadPool& threads_;
  const int64_t context_;
  const at::TensorOptions fp32_;
  int64_t head_size_ = 0;
  RopeSpec rope_spec_;
  std::optional<tensor::RopeTable> rope_;
  at::Tensor cosine_, sine_;
  std::vector<Cache> caches_;      // for each block
  std::vector<Segment> segments_;  // of the current tokens
};

TorchCachedAttention::TorchCachedAttention(const tensor::DevicePlace& place, ThreadPool& threads,
                                           int64_t context)
    : state_(std::make_unique<State>(place, threads, context)) {}

TorchCachedAttention::~TorchCachedAttention() = default;

void TorchCachedAttention::plan(int64_t layers, const tensor::AttentionShape& shape,
                                const RopeSpec& rope) {
  state_->plan(layers, shape, rope);
}

void TorchCachedAttention::grow_to(int64_t length) { state_->grow_to(length); }

void TorchCachedAttention::begin_tokens(std::vector<Segment> segments) {
  state_->begin_tokens(std::move(segments));
}

at::Tensor TorchCachedAttention::forward(int64_t layer, const tensor::AttentionShape& shape,
                                         const at::Tensor& qkv) {
  return state_->forward(layer, shape, qkv);
}

}  // namespace thinwire::model
