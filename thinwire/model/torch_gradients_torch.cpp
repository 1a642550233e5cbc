#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <type_traits>

#include "thinwire/base/half.h"
#include "thinwire/model/torch_parts.h"
#include "thinwire/model/weights.h"

namespace thinwire::model {

template <typename T>
void TorchGradients<T>::begin(tensor::GradientSink& sink, tensor::Pass pass) {
  sink_ = &sink;
  sink.begin(pass, &place_);
}

template <typename T>
at::Tensor TorchGradients<T>::opened(const tensor::OpenGradient& to, int64_t rows,
                                     int64_t columns) const {
  at::Tensor sum = at::from_blob(to.values, {rows, columns},
                                 at::TensorOptions(at::kFloat).device(torch_device(place_)));
  if (to.keep == 0) sum.zero_();
  return sum;
}

template <typename T>
at::Tensor TorchGradients<T>::open(int64_t offset, int64_t rows, int64_t columns) {
  return opened(sink_->open({offset, rows * columns}), rows, columns);
}

template <typename T>
void TorchGradients<T>::add_vector(const tensor::GradientRange& range, const at::Tensor& gradient) {
  if (!is_trained(range.offset)) return;
  opened(sink_->open(range), 1, range.count).add_(gradient);
  sink_->complete(range);
}

template <typename T>
void TorchGradients<T>::add_rows(int64_t table, int64_t rows, const at::Tensor& dx,
                                 const at::Tensor& row_N) {
  if (!is_trained(table)) return;
  const tensor::GradientRange range = {table, rows * dx.size(1)};
  opened(sink_->open(range), rows, dx.size(1))
      .add_(at::embedding_dense_backward(dx, row_N, rows, -1, false));
  sink_->complete(range);
}

template <typename T>
void TorchGradients<T>::add_matrix(int64_t offset, const at::Tensor& dy, const at::Tensor& x) {
  if (!is_trained(offset)) return;
  const tensor::GradientRange range = {offset, dy.size(1) * x.size(1)};
  const tensor::OpenGradient to = sink_->open(range);
  const auto& [left_basis, right_basis, rank] = to.projection;
  const at::Tensor left = project(dy, left_basis, rank);
  const at::Tensor right = project(x, right_basis, rank);
  add_product(opened(to, left.size(1), right.size(1)), left, right);
  sink_->complete(range);
}

template <typename T>
void TorchGradients<T>::add_product(const at::Tensor& gradient, const at::Tensor& dy,
                                    const at::Tensor& x) {
  if constexpr (std::is_same_v<T, float>) {
    gradient.addmm_(dy.t(), x);
  } else if (gradient.is_cuda()) {
    at::Tensor sum = gradient;
    at::addmm_out(sum, gradient, dy.t(), x, at::kFloat);
  } else {
    gradient.add_(at::mm(dy.t(), x));
  }
}

template <typename T>
at::Tensor TorchGradients<T>::project(const at::Tensor& factor, const float* basis, int64_t rank) {
  if (basis == nullptr) return factor;
  const at::Tensor host = at::from_blob(const_cast<float*>(basis), {rank, factor.size(1)},
                                        at::TensorOptions(at::kFloat));
  return at::mm(factor, host.to(factor.device(), factor.scalar_type()).t());
}

template class TorchGradients<float>;
template class TorchGradients<Bf16>;

}  // namespace thinwire::model
