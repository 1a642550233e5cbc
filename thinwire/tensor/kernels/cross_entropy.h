// The last product of a language model and its softmax cross entropy as one operation, in chunks of
// rows, so that the logits (rows x vocabulary) never exist as a whole. With a vocabulary of 1 the
// logit is a number instead (regression), and its loss the squared error.
//
// The weight's gradient may also be formed in slabs of the vocabulary, so that it never exists as a
// whole either. That computes the logits a second time.
//
// Shape suffixes: N rows (tokens), C model width, V vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::tensor {

// logits = x weight^T + bias (null: none). T is the type of the operands; logits and losses are
// fp32, their sum double.
template <typename T>
class LinearCrossEntropy {
 public:
  LinearCrossEntropy(int64_t width, int64_t vocabulary, int64_t max_rows, ThreadPool& threads);

  // Sum over the rows of the cross entropy with their targets, in nats, each multiplied by the
  // row's factor (null: no factors). losses_N, unless null, receives each row's part of it. With a
  // vocabulary of 1 targets are the bits of fp32 numbers.
  double loss(int64_t rows, const T* x_NC, const T* weight_VC, const int32_t* targets_N,
              const float* factors_N, float* losses_N = nullptr, const float* bias_V = nullptr);

  // Returns the same number, and writes dx = scale * d(loss)/dx and dweight = scale *
  // d(loss)/dweight + keep * dweight (keep 0: the old values are not read; dweight null: not
  // computed).
  double loss_and_gradients(int64_t rows, const T* x_NC, const T* weight_VC,
                            const int32_t* targets_N, const float* factors_N, float scale, T* dx_NC,
                            float keep, float* dweight_VC, const float* bias_V = nullptr);
  // The rows of dweight from `first` on, after loss_and_gradients() with the same rows, x and
  // targets and without a bias: the same numbers up to rounding. It reads only these rows of
  // weight.
  void weight_gradient(int64_t rows, const T* x_NC, const T* weight_VC, const int32_t* targets_N,
                       int64_t first, int64_t count, float keep, float* dweight);
  // Adds scale * d(loss)/dbias of the last call with a bias.
  void add_bias_gradient(float* dbias_V) const;

  size_t bytes() const;

 private:
  // The loss of the chunk that begins with row `first` and, if wanted, the gradients of its logits
  // in dlogits(), each row still to be divided by its denominator.
  double chunk_loss(int64_t first, int64_t rows, const T* x, const T* weight,
                    const int32_t* targets, const float* factors, const float* bias,
                    bool gradients);
  // bias_gradient_ += the rows of dlogits(), each multiplied by its entry in multipliers_.
  void sum_bias_gradient(int64_t first, int64_t rows);
  // They replace the logits, of which a row has `columns`; in bf16 a row takes the first half of
  // its logits' memory.
  const T* dlogits() const { return reinterpret_cast<const T*>(logits_.data()); }
  static int64_t dlogits_stride(int64_t columns);
  // wide_ = dlogits() weight of one chunk, each row still to be divided by its denominator.
  void multiply_back(int64_t rows, const T* weight);
  // scaled_ = the rows [begin, end) of x, each multiplied by its entry in `multipliers`; uses
  // wide_.
  void scale_inputs(int64_t begin, int64_t end, const T* x, const float* multipliers);

  int64_t width_, vocabulary_, chunk_;
  ThreadPool& threads_;
  AlignedBuffer<float> logits_;       // [chunk, V]
  AlignedBuffer<float> losses_;       // [chunk]
  std::vector<SoftmaxSum> sums_;      // [rows]
  AlignedBuffer<float> multipliers_;  // [rows]: scale * factor / denominator
  AlignedBuffer<float> wide_;         // [depth parts, chunk, C], in fp32
  AlignedBuffer<T> scaled_;           // [chunk, C], rows of x
  std::vector<float> bias_gradient_;  // [V]; empty without a bias
};

}  // namespace thinwire::tensor
