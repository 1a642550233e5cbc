#include <type_traits>

#include "thinwire/model/cpu_ops.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {
namespace {

using tensor::Transpose;

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

}  // namespace

template <typename T>
AdapterProducts<T>::AdapterProducts(int64_t rank, double scale, int64_t max_tokens,
                                    ThreadPool& threads)
    : rank_(rank),
      scale_(static_cast<float>(scale)),
      threads_(threads),
      wide_(kIsFloat<T> ? 0 : max_tokens * rank),
      t_(max_tokens * rank),
      u_(max_tokens * rank) {}

template <typename T>
float* AdapterProducts<T>::sums(T* to) {
  if constexpr (kIsFloat<T>) {
    return to;
  } else {
    return wide_.data();
  }
}

template <typename T>
void AdapterProducts<T>::scale(int64_t count, T* to) {
  float* const values = sums(to);
  threads_.for_ranges(count, 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) values[i] *= scale_;
    if constexpr (!kIsFloat<T>) {
      tensor::kernels<T>().store_rows(1, end - begin, nullptr, values + begin, end - begin,
                                      to + begin, end - begin);
    }
  });
}

template <typename T>
void AdapterProducts<T>::project_input(const Linear& linear, const Linear::Factors& factors,
                                       int64_t tokens, const Weights<T>& weights, const T* x,
                                       T* to) {
  tensor::gemm(threads_, Transpose::kNo, Transpose::kYes, tokens, rank_, linear.inputs(), x,
               linear.inputs(), weights.at(factors.a), linear.inputs(), 0, sums(to), rank_);
  scale(tokens * rank_, to);
}

template <typename T>
void AdapterProducts<T>::project_output(const Linear& linear, const Linear::Factors& factors,
                                        int64_t tokens, const Weights<T>& weights, const T* dy,
                                        T* to) {
  tensor::gemm(threads_, Transpose::kNo, Transpose::kNo, tokens, rank_, factors.outputs,
               dy + factors.column, linear.outputs(), weights.at(factors.b), rank_, 0, sums(to),
               rank_);
  scale(tokens * rank_, to);
}

template <typename T>
void AdapterProducts<T>::forward(const Linear& linear, int64_t tokens, const Weights<T>& weights,
                                 const T* x, T* y) {
  for (const Linear::Factors& factors : linear.factors()) {
    project_input(linear, factors, tokens, weights, x, t_.data());
    tensor::gemm(threads_, Transpose::kNo, Transpose::kYes, tokens, factors.outputs, rank_,
                 static_cast<const T*>(t_.data()), rank_, weights.at(factors.b), rank_,
                 factors.alone ? 0.0f : 1.0f, y + factors.column, linear.outputs());
  }
}

template <typename T>
void AdapterProducts<T>::backward_input(const Linear& linear, int64_t tokens,
                                        const Weights<T>& weights, const T* dy, T* dx) {
  float keep = linear.parts().empty() ? 0 : 1;
  for (const Linear::Factors& factors : linear.factors()) {
    project_output(linear, factors, tokens, weights, dy, u_.data());
    tensor::gemm(threads_, Transpose::kNo, Transpose::kNo, tokens, linear.inputs(), rank_,
                 static_cast<const T*>(u_.data()), rank_, weights.at(factors.a), linear.inputs(),
                 keep, dx, linear.inputs());
    keep = 1;
  }
}

template <typename T>
void AdapterProducts<T>::backward_weight(const Linear& linear, int64_t tokens,
                                         const Weights<T>& weights, const T* dy, const T* x,
                                         tensor::GradientSink& sink) {
  for (const Linear::Factors& factors : linear.factors()) {
    project_input(linear, factors, tokens, weights, x, t_.data());
    project_output(linear, factors, tokens, weights, dy, u_.data());
    const tensor::GradientRange a = {factors.a, rank_ * linear.inputs()};
    const tensor::OpenGradient to_a = sink.open(a);
    tensor::gemm(threads_, Transpose::kYes, Transpose::kNo, rank_, linear.inputs(), tokens,
                 static_cast<const T*>(u_.data()), rank_, x, linear.inputs(), to_a.keep,
                 to_a.values, linear.inputs());
    sink.complete(a);
    const tensor::GradientRange b = {factors.b, factors.outputs * rank_};
    const tensor::OpenGradient to_b = sink.open(b);
    tensor::gemm(threads_, Transpose::kYes, Transpose::kNo, factors.outputs, rank_, tokens,
                 dy + factors.column, linear.outputs(), static_cast<const T*>(t_.data()), rank_,
                 to_b.keep, to_b.values, rank_);
    sink.complete(b);
  }
}

template class AdapterProducts<float>;
template class AdapterProducts<Bf16>;

}  // namespace thinwire::model
