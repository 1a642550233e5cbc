// Where the LibTorch backend puts the gradients of a pass: what an operation has formed is added to
// the gradient that the sink opens, which is then complete. Nothing is added to frozen parameters.
//
// Shape suffixes: N tokens, C model width, I input features, O output features.
#pragma once

#include <cstdint>

#include "thinwire/model/torch_parameters.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// T is the type of operands, float or Bf16.
template <typename T>
class TorchGradients {
 public:
  explicit TorchGradients(const tensor::DevicePlace& place) : place_(place) {}

  void begin(tensor::GradientSink& sink, tensor::Pass pass);
  const tensor::GradientSink& sink() const { return *sink_; }

  void add_vector(const tensor::GradientRange& range, const at::Tensor& gradient);
  // Of a table [rows, C] of which each token took the row of this number.
  void add_rows(int64_t table, int64_t rows, const at::Tensor& dx_NC, const at::Tensor& row_N);
  // dy^T x of the matrix at `offset`, or its projection.
  void add_matrix(int64_t offset, const at::Tensor& dy_NO, const at::Tensor& x_NI);

  // The gradient of a matrix, to be added to piece by piece until complete().
  at::Tensor open(int64_t offset, int64_t rows, int64_t columns);
  void complete(int64_t offset, int64_t rows, int64_t columns) {
    sink_->complete({offset, rows * columns});
  }
  // gradient += dy^T x
  static void add_product(const at::Tensor& gradient_OI, const at::Tensor& dy_NO,
                          const at::Tensor& x_NI);

 private:
  at::Tensor opened(const tensor::OpenGradient& to, int64_t rows, int64_t columns) const;
  // The factor of a gradient in the basis [rank, width] in host memory; null: as it is.
  static at::Tensor project(const at::Tensor& factor, const float* basis, int64_t rank);

  const tensor::DevicePlace place_;
  tensor::GradientSink* sink_ = nullptr;  // of the current pass
};

}  // namespace thinwire::model
