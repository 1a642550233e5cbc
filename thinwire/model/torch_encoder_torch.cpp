#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "thinwire/model/torch_parts.h"

namespace thinwire::model {

TorchNormed torch_layer_norm(const at::Tensor& x, float eps) {
  const at::Tensor centered = x - x.mean(1, true);
  at::Tensor rstd = centered.square().mean(1, true).add_(eps).rsqrt_();
  return {centered * rstd, rstd};
}

at::Tensor scaled_and_shifted(const at::Tensor& normed, const at::Tensor& weight,
                              const at::Tensor& bias) {
  return normed * weight + bias;
}

at::Tensor torch_layer_norm_backward(const TorchNormed& saved, const at::Tensor& weight,
                                     const at::Tensor& dy) {
  const at::Tensor weighted = dy * weight;
  const at::Tensor along = (weighted * saved.normed_NC).mean(1, true);
  return (weighted - weighted.mean(1, true) - saved.normed_NC * along) * saved.rstd_N1;
}

at::Tensor torch_positions(const Batch& batch, int64_t first) {
  at::Tensor positions = at::empty({batch.tokens()}, at::TensorOptions(at::kInt));
  auto* const to = positions.data_ptr<int32_t>();
  for (const Document& document : batch.documents()) {
    std::iota(to + document.first, to + document.first + document.count,
              static_cast<int32_t>(first));
  }
  return positions;
}

}  // namespace thinwire::model
