// What encoders compute by LibTorch besides products and attention. All tensors are fp32.
//
// Shape suffixes: N tokens, C model width.
#pragma once

#include <cstdint>

#include "thinwire/model/batch.h"

namespace at {
class Tensor;
}

namespace thinwire::model {

// LayerNorm of rows before weight and bias, and 1 / their standard deviation [N, 1].
struct TorchNormed {
  at::Tensor normed_NC, rstd_N1;
};
TorchNormed torch_layer_norm(const at::Tensor& x_NC, float eps);

at::Tensor scaled_and_shifted(const at::Tensor& normed_NC, const at::Tensor& weight_C,
                              const at::Tensor& bias_C);

// The gradient of x, given that of the result.
at::Tensor torch_layer_norm_backward(const TorchNormed& saved, const at::Tensor& weight_C,
                                     const at::Tensor& dy_NC);

// The position of each token in its document, plus `first` [N], on the CPU.
at::Tensor torch_positions(const Batch& batch, int64_t first);

}  // namespace thinwire::model
