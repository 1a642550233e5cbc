// The products with the factors of adapters (method/adapters/adapter.h) on the CPU, by hand:
//
//     t = s x A^T   y += t B^T                       forward
//     u = s dy B    dx += u A   dA = u^T x   dB = dy^T t   backward
//
// t and u are only `rank` wide, so the backward pass computes both again instead of keeping them:
// that takes rank / width of the time of the product with W.
//
// Shape suffixes: N tokens, I input features, O output features, R rank.
#pragma once

#include <cstdint>

#include "thinwire/base/threads.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// T is the type of operands, float or Bf16. Used by one thread, which may use the pool.
template <typename T>
class AdapterProducts {
 public:
  // For factors of this rank and scale (s) and at most max_tokens.
  AdapterProducts(int64_t rank, double scale, int64_t max_tokens, ThreadPool& threads);

  // Each adds to the result of the product with W, or replaces it where there is no W.
  void forward(const Linear& linear, int64_t tokens, const Weights<T>& weights, const T* x_NI,
               T* y_NO);
  void backward_input(const Linear& linear, int64_t tokens, const Weights<T>& weights,
                      const T* dy_NO, T* dx_NI);
  // dA and dB, which are then complete. The factors are no longer read once the first of them is.
  void backward_weight(const Linear& linear, int64_t tokens, const Weights<T>& weights,
                       const T* dy_NO, const T* x_NI, tensor::GradientSink& sink);

  size_t bytes() const { return wide_.bytes() + t_.bytes() + u_.bytes(); }

 private:
  // to = s x A^T
  void project_input(const Linear& linear, const Linear::Factors& factors, int64_t tokens,
                     const Weights<T>& weights, const T* x, T* to);
  // to = s dy B
  void project_output(const Linear& linear, const Linear::Factors& factors, int64_t tokens,
                      const Weights<T>& weights, const T* dy, T* to);
  // The memory in which a projection is summed in fp32, and its last step: to = s * these sums.
  float* sums(T* to);
  void scale(int64_t count, T* to);

  const int64_t rank_;
  const float scale_;
  ThreadPool& threads_;
  tensor::AlignedBuffer<float> wide_;  // [N, R], if operands are not fp32
  tensor::AlignedBuffer<T> t_, u_;     // [N, R]
};

}  // namespace thinwire::model
