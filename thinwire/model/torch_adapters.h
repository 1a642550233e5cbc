// The products of adapter_products.h with LibTorch.
#pragma once

#include <cstdint>
#include <functional>

#include "thinwire/method/adapters/adapter.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/torch_parameters.h"

namespace thinwire::model {

// Shape suffixes as in adapter_products.h. All tensors are operands on the parameters' device.
class TorchAdapters {
 public:
  // Computes the gradient dy^T x of the matrix at an offset of the parameters.
  using AddGradient =
      std::function<void(int64_t offset, const at::Tensor& dy, const at::Tensor& x)>;

  // The parameters must outlive it.
  TorchAdapters(const method::AdapterSpec& adapter, const TorchParameters& params);

  void forward(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO) const;
  void backward_input(const Linear& linear, const at::Tensor& dy_NO, const at::Tensor& dx_NI) const;
  void backward_weight(const Linear& linear, const at::Tensor& dy_NO, const at::Tensor& x_NI,
                       const AddGradient& add) const;

 private:
  at::Tensor a(const Linear& linear, const Linear::Factors& factors) const;
  at::Tensor b(const Linear::Factors& factors) const;

  const int64_t rank_;
  const double scale_;
  const TorchParameters& params_;
};

}  // namespace thinwire::model
