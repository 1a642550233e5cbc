// The factors of a projected gradient P^T dy^T x Q: dy P and x Q, in the precision of the matrix
// products (bases are rounded to it). The product of N tokens with a matrix [O, I] takes 2 N O I
// operations whole and 2 N r (O + I) projected on one side.
//
// Shape suffixes: N tokens, R rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

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

}  // namespace thinwire::model
