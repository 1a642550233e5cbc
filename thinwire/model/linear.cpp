#include "thinwire/model/linear.h"

#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {
namespace {

using tensor::Transpose;

}  // namespace

Linear::Linear(const tensor::Layout& layout, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const size_t index = layout.find(name);
    const Shape& shape = layout.specs()[index].shape;
    inputs_ = shape[1];
    const int64_t start = layout.offset(index);
    matrices_.push_back({start, outputs_, shape[0]});
    if (!parts_.empty() && parts_.back().offset + parts_.back().outputs * inputs_ == start) {
      parts_.back().outputs += shape[0];
    } else {
      parts_.push_back({start, outputs_, shape[0]});
    }
    outputs_ += shape[0];
  }
}

template <typename T>
void Linear::forward(ThreadPool& threads, int64_t tokens, const T* arena, const T* x, T* y) const {
  for (const Part& part : parts_) {
    tensor::gemm(threads, Transpose::kNo, Transpose::kYes, tokens, part.outputs, inputs_, x,
                 inputs_, arena + part.offset, inputs_, 0, y + part.column, outputs_);
  }
}

template <typename T>
void Linear::backward_input(ThreadPool& threads, int64_t tokens, const T* arena, const T* dy,
                            T* dx) const {
  float beta = 0;
  for (const Part& part : parts_) {
    tensor::gemm(threads, Transpose::kNo, Transpose::kNo, tokens, inputs_, part.outputs,
                 dy + part.column, outputs_, arena + part.offset, inputs_, beta, dx, inputs_);
    beta = 1;
  }
}

template <typename T>
void Linear::backward_weight(ThreadPool& threads, int64_t tokens, const T* dy, const T* x,
                             tensor::GradientSink& sink, ProjectedFactors<T>& factors) const {
  for (const Part& part : gradient_parts(sink)) {
    const tensor::OpenGradient to = sink.open(range(part));
    const Factor<T> left =
        factors.left(threads, to.projection, tokens, {dy + part.column, part.outputs, outputs_});
    const Factor<T> right = factors.right(threads, to.projection, tokens, {x, inputs_, inputs_});
    tensor::gemm(threads, Transpose::kYes, Transpose::kNo, left.width, right.width, tokens,
                 left.values, left.stride, right.values, right.stride, to.keep, to.values,
                 right.width);
    sink.complete(range(part));
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                             \
  template void Linear::forward(ThreadPool&, int64_t, const T*, const T*, T*) const;        \
  template void Linear::backward_input(ThreadPool&, int64_t, const T*, const T*, T*) const; \
  template void Linear::backward_weight(ThreadPool&, int64_t, const T*, const T*,           \
                                        tensor::GradientSink&, ProjectedFactors<T>&) const
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::model
