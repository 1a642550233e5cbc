#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "thinwire/base/half.h"
#include "thinwire/model/torch_parts.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {

template <typename T>
struct TorchHead<T>::State {
  at::Tensor to_device(const void* values, int64_t count, at::ScalarType type) const {
    return at::from_blob(const_cast<void*>(values), {count}, at::TensorOptions(type))
        .to(fp32.device(), /*non_blocking=*/false, /*copy=*/true);
  }
  // The logits of these rows, as operands.
  at::Tensor multiply(const Head& head, const at::Tensor& x) const {
    at::Tensor logits = at::mm(x, params.matrix(head.weight, head.outputs, x.size(1)).t());
    if (head.bias == Head::kNoBias) return logits;
    return logits.add_(
        at::from_blob(const_cast<float*>(params.values(head.bias)), {head.outputs}, fp32));
  }

  // The losses of numbers, whose fp32 bits are the targets; their slopes replace the logits.
  void square_errors(int64_t first, const at::Tensor& logits, float scale) {
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, logits.size(0)); };
    const at::Tensor error = logits.squeeze(1).to(at::kFloat).sub(part(targets_N.view(at::kFloat)));
    const at::Tensor weighted = weights_N.defined() ? error.mul(part(weights_N)) : error;
    part(losses_N).copy_(error.mul(weighted));
    logits.copy_(weighted.mul(2 * scale).unsqueeze(1));
  }

  const tensor::DevicePlace place;
  const at::TensorOptions fp32;
  ThreadPool& threads;
  const TorchParameters& params;
  TorchGradients<T>& gradients;
  const int64_t chunk;
  int64_t rows = 0;
  at::Tensor targets_N = {}, weights_N = {}, losses_N = {};
  at::Tensor dbias = {};
};

template <typename T>
TorchHead<T>::TorchHead(const tensor::DevicePlace& place, ThreadPool& threads,
                        const TorchParameters& params, TorchGradients<T>& gradients, int64_t chunk)
    : state_(new State{place, at::TensorOptions(at::kFloat).device(torch_device(place)), threads,
                       params, gradients, chunk}) {}

template <typename T>
TorchHead<T>::~TorchHead() = default;

template <typename T>
void TorchHead<T>::set_targets(std::span<const int32_t> targets) {
  state_->rows = std::ssize(targets);
  state_->targets_N = state_->to_device(targets.data(), state_->rows, at::kInt);
}

template <typename T>
void TorchHead<T>::set_weights(const float* weights) {
  state_->weights_N =
      weights == nullptr ? at::Tensor() : state_->to_device(weights, state_->rows, at::kFloat);
}

template <typename T>
void TorchHead<T>::compute(const Head& head, const at::Tensor& x, float scale,
                           const at::Tensor* dx) {
  State& s = *state_;
  const int64_t c = x.size(1), outputs = head.outputs;
  const bool biased = dx != nullptr && head.bias != Head::kNoBias;
  at::Tensor dweight;
  if (dx != nullptr && is_trained(head.weight)) {
    dweight = s.gradients.open(head.weight, outputs, c);
  }
  if (biased) s.dbias = at::zeros({outputs}, s.fp32);
  s.losses_N = at::empty({s.rows}, s.fp32);
  const auto* const targets = static_cast<const int32_t*>(s.targets_N.data_ptr());
  const auto* const weights =
      s.weights_N.defined() ? static_cast<const float*>(s.weights_N.data_ptr()) : nullptr;
  for (int64_t first = 0; first < s.rows; first += s.chunk) {
    const int64_t count = std::min(s.chunk, s.rows - first);
    const at::Tensor hidden = x.narrow(0, first, count);
    const at::Tensor logits = s.multiply(head, hidden);
    if (outputs == 1) {
      s.square_errors(first, logits, dx == nullptr ? 0 : scale);
    } else {
      tensor::launch(s.place, s.threads,
                     tensor::CrossEntropy<T>{
                         outputs, targets + first, weights == nullptr ? nullptr : weights + first,
                         dx != nullptr, scale, static_cast<T*>(logits.data_ptr()),
                         static_cast<float*>(s.losses_N.data_ptr()) + first},
                     count);
    }
    if (dx == nullptr) continue;
    at::Tensor branch = dx->narrow(0, first, count);
    at::mm_out(branch, logits, s.params.matrix(head.weight, outputs, c));
    if (dweight.defined()) TorchGradients<T>::add_product(dweight, logits, hidden);
    if (biased) s.dbias.add_(logits.sum(0, false, at::kFloat));
  }
  if (dweight.defined() && !head.embeds) s.gradients.complete(head.weight, outputs, c);
}

template <typename T>
const at::Tensor& TorchHead<T>::losses(const Head& head, const at::Tensor& x) {
  compute(head, x, 0, nullptr);
  return state_->losses_N;
}

template <typename T>
void TorchHead<T>::gradients(const Head& head, const at::Tensor& x, float scale,
                             const at::Tensor& dx) {
  compute(head, x, scale, &dx);
}

template <typename T>
void TorchHead<T>::bias_backward(const Head& head) {
  if (head.bias == Head::kNoBias) return;
  state_->gradients.add_vector({head.bias, head.outputs}, state_->dbias);
}

template <typename T>
double TorchHead<T>::loss() const {
  return state_->losses_N.sum(at::kDouble).template item<double>();
}

template <typename T>
void TorchHead<T>::logits(const Head& head, const at::Tensor& x, std::span<float> out) const {
  at::from_blob(out.data(), {x.size(0), head.outputs}, at::TensorOptions(at::kFloat))
      .copy_(state_->multiply(head, x));
}

template <typename T>
size_t TorchHead<T>::bytes() const {
  return state_->targets_N.defined() ? state_->targets_N.nbytes() : 0;
}

template class TorchHead<float>;
template class TorchHead<Bf16>;

}  // namespace thinwire::model
