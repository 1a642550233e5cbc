#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>

#include "thinwire/method/adapters/adapter.h"
#include "thinwire/model/torch_parts.h"

namespace thinwire::model {
namespace {

// The columns of the outputs that belong to these factors.
at::Tensor columns_of(const Linear::Factors& factors, const at::Tensor& outputs) {
  return outputs.narrow(1, factors.column, factors.outputs);
}

}  // namespace

TorchAdapters::TorchAdapters(const method::AdapterSpec& adapter, const TorchParameters& params)
    : rank_(adapter.rank), scale_(method::factor_scale(adapter)), params_(params) {}

at::Tensor TorchAdapters::a(const Linear& linear, const Linear::Factors& factors) const {
  return params_.matrix(factors.a, rank_, linear.inputs());
}

at::Tensor TorchAdapters::b(const Linear::Factors& factors) const {
  return params_.matrix(factors.b, factors.outputs, rank_);
}

void TorchAdapters::forward(const Linear& linear, const at::Tensor& x, const at::Tensor& y) const {
  for (const Linear::Factors& factors : linear.factors()) {
    const at::Tensor t = at::mm(x, a(linear, factors).t()).mul_(scale_);
    columns_of(factors, y).addmm_(t, b(factors).t(), factors.alone ? 0 : 1);
  }
}

void TorchAdapters::backward_input(const Linear& linear, const at::Tensor& dy,
                                   const at::Tensor& dx) const {
  bool adds = !linear.parts().empty();
  for (const Linear::Factors& factors : linear.factors()) {
    const at::Tensor u = at::mm(columns_of(factors, dy), b(factors)).mul_(scale_);
    dx.addmm_(u, a(linear, factors), adds ? 1 : 0);
    adds = true;
  }
}

void TorchAdapters::backward_weight(const Linear& linear, const at::Tensor& dy, const at::Tensor& x,
                                    const AddGradient& add) const {
  for (const Linear::Factors& factors : linear.factors()) {
    const at::Tensor columns = columns_of(factors, dy);
    const at::Tensor t = at::mm(x, a(linear, factors).t()).mul_(scale_);
    const at::Tensor u = at::mm(columns, b(factors)).mul_(scale_);
    add(factors.a, u, x);
    add(factors.b, columns, t);
  }
}

}  // namespace thinwire::model
