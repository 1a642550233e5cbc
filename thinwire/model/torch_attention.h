// Attention of the LibTorch backend: rotary positions by our own kernel, the rest by ATen's
// scaled_dot_product_attention, whose backward pass is the only use of autograd. A window smaller
// than the row becomes a mask, and so do several documents in a row. Their positions count from the
// row's beginning, which makes no difference: scores depend on distances only. One thread uses it
// at a time.
//
// Shape suffixes: N tokens, W a token's queries, keys and values, C the width of all heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "thinwire/base/rope.h"
#include "thinwire/base/threads.h"
#include "thinwire/model/batch.h"
#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/storage/device.h"

namespace at {
class Tensor;
}

namespace thinwire::model {

// T is the type of operands, float or Bf16.
template <typename T>
class TorchAttention {
 public:
  TorchAttention(const tensor::DevicePlace& place, ThreadPool& threads);
  ~TorchAttention();
  TorchAttention(const TorchAttention&) = delete;
  TorchAttention& operator=(const TorchAttention&) = delete;

  // For rows of up to `positions` tokens.
  void plan(int64_t positions, const tensor::AttentionShape& shape, const RopeSpec& rope);
  // keep: backward() follows.
  void begin_batch(const Batch& batch, bool keep);

  // Rotates qkv in place and returns the heads' output [N, C]. What backward() needs is stored
  // under `key`, a slot, until drop().
  at::Tensor forward(int key, const tensor::AttentionShape& shape, const at::Tensor& qkv_NW);
  // Returns the gradients [N, W] of qkv as it was before forward().
  at::Tensor backward(int key, const tensor::AttentionShape& shape, const at::Tensor& dout_NC);
  void drop(int key);

  size_t bytes() const;  // of tables and masks

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace thinwire::model
