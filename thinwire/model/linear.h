// Products with the parameters in place in the arena. Matrices that multiply the same input and are
// adjacent there (queries, keys and values; gate and up) are one product.
//
// Shape suffixes: N tokens, I input features, O output features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// The factors of a projected gradient P^T dy^T x Q: dy P and x Q, in the precision of the matrix
// products (bases are rounded to it). The product of N tokens with a matrix [O, I] takes 2 N O I
// operations whole and 2 N r (O + I) projected on one side.
//
// Shape suffixes: N tokens, R rank.

// Rows of `width` values, one for each token, `stride` apart.
template <typename T>
struct Factor {
  const T* values;
  int64_t width;
  int64_t stride;
};

// Holds the memory that the factors need; it grows to the largest seen so far. T is float or Bf16.
template <typename T>
class ProjectedFactors {
 public:
  // dy, or dy P; valid until the next call for this side.
  Factor<T> left(ThreadPool& threads, const tensor::Projection& projection, int64_t tokens,
                 const Factor<T>& dy) {
    return project(threads, projection.left, projection.rank, tokens, dy, left_NR_);
  }
  // x, or x Q.
  Factor<T> right(ThreadPool& threads, const tensor::Projection& projection, int64_t tokens,
                  const Factor<T>& x) {
    return project(threads, projection.right, projection.rank, tokens, x, right_NR_);
  }

  size_t bytes() const {
    return (basis_.capacity() + left_NR_.capacity() + right_NR_.capacity()) * sizeof(T);
  }

 private:
  Factor<T> project(ThreadPool& threads, const float* basis, int64_t rank, int64_t tokens,
                    const Factor<T>& factor, std::vector<T>& out_NR);

  std::vector<T> basis_;  // rounded; empty for float
  std::vector<T> left_NR_, right_NR_;
};

// One or several matrices [outputs, inputs] with a common input; their outputs are side by side.
class Linear {
 public:
  struct Part {
    int64_t offset;  // in the arena
    int64_t column;  // first output
    int64_t outputs;
  };
  // The factors of one matrix (method/adapters/adapter.h): A [rank, inputs] and B [outputs, rank].
  struct Factors {
    int64_t a, b;    // in the arena
    int64_t column;  // first output
    int64_t outputs;
    bool alone;  // the product has no matrix besides them
  };
  tensor::GradientRange range(const Part& part) const {
    return {part.offset, part.outputs * inputs_};
  }

  Linear() = default;
  // The tensors of these names, in this order; or their factors, or both, as the layout has them.
  Linear(const tensor::Layout& layout, const std::vector<std::string>& names);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  // The parts of the product: matrices [part.outputs, inputs] whose outputs are side by side.
  std::span<const Part> parts() const { return parts_; }
  // Every matrix by itself.
  std::span<const Part> matrices() const { return matrices_; }
  // The factors whose products are added (model/cpu_ops.h); usually none.
  std::span<const Factors> factors() const { return factors_; }
  // The products in which gradients are formed: the parts, or every matrix by itself.
  std::span<const Part> gradient_parts(const tensor::GradientSink& sink) const {
    return sink.separates_tensors() ? matrices_ : parts_;
  }

  // The products with the matrices alone.
  // y = x W^T
  template <typename T>
  void forward(ThreadPool& threads, int64_t tokens, const Weights<T>& weights, const T* x_NI,
               T* y_NO) const;
  // dx = dy W
  template <typename T>
  void backward_input(ThreadPool& threads, int64_t tokens, const Weights<T>& weights,
                      const T* dy_NO, T* dx_NI) const;
  // dW = dy^T x, or its projection, complete, of matrices that are trained.
  template <typename T>
  void backward_weight(ThreadPool& threads, int64_t tokens, const T* dy_NO, const T* x_NI,
                       tensor::GradientSink& sink, ProjectedFactors<T>& factors) const;

 private:
  void add_part(int64_t start, int64_t outputs);
  // to = from op(W) + beta to, for the matrix W of a part; rows are as far apart as they are wide.
  template <typename T>
  void multiply(ThreadPool& threads, tensor::Transpose transpose, int64_t tokens, const Part& part,
                const Weights<T>& weights, const T* from, int64_t from_width, float beta, T* to,
                int64_t to_width) const;

  int64_t inputs_ = 0;
  int64_t outputs_ = 0;
  std::vector<Part> parts_;
  std::vector<Factors> factors_;
  std::vector<Part> matrices_;
};

}  // namespace thinwire::model
