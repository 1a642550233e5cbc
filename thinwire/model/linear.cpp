#include "thinwire/model/linear.h"

#include <optional>
#include <type_traits>

#include "thinwire/base/half.h"
#include "thinwire/base/scratch.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

template <typename T>
Factor<T> ProjectedFactors<T>::project(ThreadPool& threads, const float* basis, int64_t rank,
                                       int64_t tokens, const Factor<T>& factor,
                                       std::vector<T>& out_NR) {
  if (basis == nullptr) return factor;
  T* const out = scratch(out_NR, tokens * rank).data();
  const T* rows;
  if constexpr (std::is_same_v<T, float>) {
    rows = basis;
  } else {
    const int64_t count = rank * factor.width;
    T* const rounded = scratch(basis_, count).data();
    tensor::kernels<T>().store_rows(1, count, nullptr, basis, count, rounded, count);
    rows = rounded;
  }
  tensor::gemm(threads, tensor::Transpose::kNo, tensor::Transpose::kYes, tokens, rank, factor.width,
               factor.values, factor.stride, rows, factor.width, 0, out, rank);
  return {out, rank, rank};
}

template class ProjectedFactors<float>;
template class ProjectedFactors<Bf16>;

namespace {

using tensor::Transpose;

}  // namespace

template <typename T>
void Linear::multiply(ThreadPool& threads, Transpose transpose, int64_t tokens, const Part& part,
                      const Weights<T>& weights, const T* from, int64_t from_width, float beta,
                      T* to, int64_t to_width) const {
  if constexpr (std::is_same_v<T, Bf16>) {
    const auto packed = weights.packed_at(part.offset, part.outputs);
    if (!packed.empty()) {
      return tensor::gemm_encoded(threads, transpose, tokens, from, from_width, packed, beta, to,
                                  to_width);
    }
  }
  const bool transposed = transpose == Transpose::kYes;
  tensor::gemm(threads, Transpose::kNo, transpose, tokens, transposed ? part.outputs : inputs_,
               transposed ? inputs_ : part.outputs, from, from_width, weights.at(part.offset),
               inputs_, beta, to, to_width);
}

Linear::Linear(const tensor::Layout& layout, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const method::FactorNames factors = method::factor_names(name);
    const std::optional<size_t> a = layout.index_of(factors.a);
    const std::optional<size_t> b = layout.index_of(factors.b);
    const bool adapted = a && b;
    const std::optional<size_t> matrix = adapted ? layout.index_of(name) : layout.find(name);
    const TensorSpec& wide = layout.specs()[adapted ? *a : *matrix];
    const int64_t outputs = layout.specs()[adapted ? *b : *matrix].shape[0];
    inputs_ = wide.shape[1];
    if (adapted) {
      factors_.push_back({layout.offset(*a), layout.offset(*b), outputs_, outputs, !matrix});
    }
    if (matrix) {
      matrices_.push_back({layout.offset(*matrix), outputs_, outputs});
      add_part(layout.offset(*matrix), outputs);
    }
    outputs_ += outputs;
  }
}

// Neighbours in memory whose outputs are neighbours too are one part.
void Linear::add_part(int64_t start, int64_t outputs) {
  if (!parts_.empty()) {
    Part& last = parts_.back();
    if (last.offset + last.outputs * inputs_ == start && last.column + last.outputs == outputs_) {
      last.outputs += outputs;
      return;
    }
  }
  parts_.push_back({start, outputs_, outputs});
}

template <typename T>
void Linear::forward(ThreadPool& threads, int64_t tokens, const Weights<T>& weights, const T* x,
                     T* y) const {
  for (const Part& part : parts_) {
    multiply(threads, Transpose::kYes, tokens, part, weights, x, inputs_, 0, y + part.column,
             outputs_);
  }
}

template <typename T>
void Linear::backward_input(ThreadPool& threads, int64_t tokens, const Weights<T>& weights,
                            const T* dy, T* dx) const {
  float beta = 0;
  for (const Part& part : parts_) {
    multiply(threads, Transpose::kNo, tokens, part, weights, dy + part.column, outputs_, beta, dx,
             inputs_);
    beta = 1;
  }
}

template <typename T>
void Linear::backward_weight(ThreadPool& threads, int64_t tokens, const T* dy, const T* x,
                             tensor::GradientSink& sink, ProjectedFactors<T>& factors) const {
  for (const Part& part : gradient_parts(sink)) {
    if (!is_trained(part.offset)) continue;
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
#define THINWIRE_INSTANTIATE(T)                                                               \
  template void Linear::forward(ThreadPool&, int64_t, const Weights<T>&, const T*, T*) const; \
  template void Linear::backward_input(ThreadPool&, int64_t, const Weights<T>&, const T*, T*) \
      const;                                                                                  \
  template void Linear::backward_weight(ThreadPool&, int64_t, const T*, const T*,             \
                                        tensor::GradientSink&, ProjectedFactors<T>&) const
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::model
