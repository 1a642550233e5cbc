// The last product and its cross entropy with LibTorch, in chunks of rows so that the logits never
// exist as a whole.
//
// Shape suffixes: N rows (tokens, or texts with a class), C model width.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/base/threads.h"
#include "thinwire/model/ops.h"
#include "thinwire/model/torch_gradients.h"
#include "thinwire/model/torch_parameters.h"

namespace thinwire::model {

// T is the type of operands, float or Bf16.
template <typename T>
class TorchHead {
 public:
  // Computes `chunk` rows at a time. The parameters and gradients must outlive it.
  TorchHead(const tensor::DevicePlace& place, ThreadPool& threads, const TorchParameters& params,
            TorchGradients<T>& gradients, int64_t chunk);
  ~TorchHead();
  TorchHead(const TorchHead&) = delete;
  TorchHead& operator=(const TorchHead&) = delete;

  // What the rows should predict, on the CPU; null weights: all 1.
  void set_targets(std::span<const int32_t> targets_N);
  void set_weights(const float* weights_N);

  // The weighted losses [N] of these rows.
  const at::Tensor& losses(const Head& head, const at::Tensor& x_NC);
  // The same, and the gradients of scale * their sum: dx, and that of the head's weight, which the
  // caller completes.
  void gradients(const Head& head, const at::Tensor& x_NC, float scale, const at::Tensor& dx_NC);
  // That of its bias, if it has one, which is then complete.
  void bias_backward(const Head& head);
  // Of the last call, in nats.
  double loss() const;
  void logits(const Head& head, const at::Tensor& x_NC, std::span<float> out) const;

  size_t bytes() const;  // of the targets

 private:
  struct State;
  // dx null: losses only.
  void compute(const Head& head, const at::Tensor& x, float scale, const at::Tensor* dx);

  const std::unique_ptr<State> state_;
};

}  // namespace thinwire::model
