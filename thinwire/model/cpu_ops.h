// The operations on the CPU: our own fused kernels (tensor/kernels/kernels.h), attention and
// products, over slots that are allocated once. T is the type of operands, float or Bf16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/threads.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/ops.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/kernels/cross_entropy.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// The products with the factors of adapters (method/adapters/adapter.h) on the CPU, by hand:
//
//     t = s x A^T   y += t B^T                       forward
//     u = s dy B    dx += u A   dA = u^T x   dB = dy^T t   backward
//
// t and u are only `rank` wide, so the backward pass computes both again instead of keeping them:
// that takes rank / width of the time of the product with W.
//
// Shape suffixes: N tokens, I input features, O output features, R rank.

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

template <typename T>
class CpuOps : public Ops {
 public:
  explicit CpuOps(const ModelParts& parts);
  ~CpuOps() override;

  Slot stream(int64_t width) override;
  Slot operand(int64_t width) override;
  Slot rounded(Slot stream) override;
  void plan_norms(double eps, int64_t widest) override;
  void plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                      const RopeSpec& rope) override;

  void begin_batch(const Batch& batch, bool keep) override;
  void begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) override;
  void drop(std::initializer_list<Slot>) override {}

  void embed(int64_t table, Slot x) override;
  void add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) override;
  void keep(Slot x, Slot kept) override;
  void restore(Slot kept, Slot x) override;
  void add_branch(Slot x, Slot branch, Slot sum, Slot out) override;
  void linear(const Linear& linear, Slot x, Slot y) override;
  void add_bias(const Bias& bias, Slot y) override;
  void norm_columns(const NormColumns& norm, Slot x, const PreNormSlots& saved) override;
  void add_positions(const PositionTables& tables, Slot x) override;
  void layer_norm(const LayerNorm& norm, Slot x, Slot branch, const LayerNormSlots& saved, Slot y,
                  Slot out) override;
  void layer_norm_again(const LayerNorm& norm, const LayerNormSlots& saved, Slot y,
                        Slot out) override;
  void gelu(Slot x, Slot out) override;
  void tanh(Slot x) override;
  void select_first(Slot x, Slot out) override;
  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override;
  void swiglu(Slot gate_up, Slot out) override;

  void clear(Slot dx) override;
  void norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx, Slot dx_rounded,
                     Slot out) override;
  void add_branch_backward(Slot sum, Slot dout, Slot dx, Slot dx_rounded, Slot out) override;
  void norm_columns_backward(const NormColumns& norm, const PreNormSlots& saved, Slot dout,
                             Slot dx) override;
  void bias_backward(const Bias& bias, Slot dy) override;
  void linear_backward_input(const Linear& linear, Slot dy, Slot dx) override;
  void linear_backward_weight(const Linear& linear, Slot dy, Slot x) override;
  void attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                          Slot dout) override;
  void swiglu_backward(Slot gate_up, Slot dout, Slot out) override;
  void embed_backward(Slot dx, int64_t table) override;
  void positions_backward(Slot dx, const PositionTables& tables) override;
  void layer_norm_backward(const LayerNorm& norm, const LayerNormSlots& saved, Slot dout, Slot dx,
                           Slot dx_rounded, Slot out) override;
  void gelu_backward(Slot x, Slot dout, Slot out) override;
  void tanh_backward(Slot y, Slot dout) override;
  void select_first_backward(Slot dout, Slot dx) override;

  void cross_entropy(const Head& head) override;
  void cross_entropy_gradients(const Head& head, float scale) override;
  void head_bias_backward(const Head& head) override;
  double loss() override { return loss_; }
  void document_losses(const Head& head, std::span<double> losses) override;
  void head_logits(const Head& head, std::span<float> out) override;
  void take_weights(const Batch&) override {}  // they are read where they are

  void refresh() override;
  void refresh_frozen() override;
  PassTimes times() const override { return times_; }
  size_t bytes() const override;

 protected:
  // Passes over rows run on `row_threads` (null: on the calling thread), in training and in
  // decoding.
  CpuOps(const tensor::Arena& params, const tensor::Arena* frozen, ThreadPool& threads,
         ThreadPool* row_threads, int64_t max_tokens, int64_t positions);

  void begin_tokens(const int32_t* inputs, int64_t count);
  // Ensures that the rotary table is the one for texts of `length` tokens.
  void fit_rope(int64_t length);
  float* floats(Slot slot) { return static_cast<float*>(slots_[slot].data()); }
  T* operands(Slot slot) { return static_cast<T*>(slots_[slot].data()); }
  int64_t width(Slot slot) const { return slots_[slot].width; }
  // A parameter of an fp32 arena.
  const float* parameter(int64_t offset) const;
  // All parameters in the type of operands.
  Weights<T> weights() const;
  // Says that the products read these weights next (base/offload.h).
  void touch(const Linear& linear) const;
  void touch(const tensor::GradientRange& range) const;

  ThreadPool& threads_;
  RopeSpec rope_spec_;
  std::optional<tensor::RopeTable> rope_;
  int64_t head_size_ = 0;
  std::vector<tensor::AttentionScratch> scratch_;  // for each thread
  int64_t tokens_ = 0;                             // of the current batch

 private:
  struct Values {
    int64_t width;
    tensor::AlignedBuffer<uint8_t> bytes;
    void* data() { return bytes.data(); }
  };
  // A copy of the parameters rounded to T, which the optimizer may update.
  class Copy;

  Slot add_slot(int64_t width, size_t value_bytes);
  // Calls body(first, count) over the batch's tokens, split over the threads.
  template <typename Body>
  void over_tokens(const Body& body);
  // Calls body(slab) for the slabs of a table [rows, columns] in which its gradient is formed, or
  // for all of it.
  template <typename Body>
  void over_slabs(int64_t table, int64_t rows, int64_t columns, const Body& body) const;
  // Calls body(document, key and value head, scratch) for all documents of the batch.
  template <typename Body>
  void over_heads(const tensor::AttentionShape& shape, const Body& body);

  // The rows of norm_columns(), `count` of them.
  tensor::NormGroups groups(const NormColumns& norm, Slot x, const PreNormSlots& saved,
                            int64_t count) const;
  // Sums a norm's gradient over all tokens: body(first, count, gradient) adds that of some.
  template <typename Body>
  void sum_norm_gradient(const tensor::GradientRange& range, const Body& body);

  // The arena of a parameter, and where in it the parameter is.
  std::pair<const tensor::Arena&, int64_t> storage_of(int64_t offset) const;
  // A norm's weight or a bias in fp32, valid until the next call.
  const float* vector(int64_t offset, int64_t count) { return vector(offset, count, vector_); }
  // The same, valid until the next call with this storage.
  const float* vector(int64_t offset, int64_t count, std::vector<float>& storage);

  // The gradient of the range is the sum over the threads of these columns of dnorm_, whose rows
  // are twice as wide.
  void complete_sum(const tensor::GradientRange& range, int64_t column);
  // The targets of the last product, and their weights.
  const int32_t* targets() const;
  const float* target_weights() const;
  const T* head_weights(const Head& head) const;
  // A slab of the head's rows: their gradient, complete.
  void head_slab_backward(const Head& head, const tensor::GradientRange& slab);
  // The bias of the last product in fp32; null if it has none.
  const float* head_bias(const Head& head);

  // The gradient of a slab of the table of tokens, given that of its output.
  void sum_token_gradients(const float* dx_NC, int64_t columns, int64_t table,
                           const tensor::GradientRange& slab);

  // Opens the gradient of a range that is summed piece by piece; zeroed if it was not there before.
  float* open_accumulator(const tensor::GradientRange& range);

  const int64_t max_tokens_, positions_;
  int64_t vocabulary_ = 0, outputs_ = 0;
  int64_t slabs_ = 1;  // model.vocab_slabs
  float norm_eps_ = 0;
  const tensor::Arena& params_;
  const tensor::Arena* const frozen_;
  ThreadPool* const row_threads_;
  std::vector<Values> slots_;
  std::unique_ptr<Copy> copy_, frozen_copy_;
  std::unique_ptr<AdapterProducts<T>> adapters_;  // null if there are none
  std::unique_ptr<tensor::LinearCrossEntropy<T>> head_;
  tensor::AlignedBuffer<float> dnorm_;  // a norm weight's gradient for each thread
  std::vector<float> vector_, bias_;    // where parameters are kept in bf16
  ProjectedFactors<T> factors_;
  const int32_t* inputs_ = nullptr;  // of the current batch
  const Batch* batch_ = nullptr;
  std::optional<ClassTargets> selected_;  // after select_first()
  tensor::GradientSink* sink_ = nullptr;
  double loss_ = 0;
  std::vector<float> losses_N_;  // where document_losses() is used
  PassTimes times_;
};

template <typename T>
template <typename Body>
void CpuOps<T>::over_tokens(const Body& body) {
  const TimedScope timed(times_.between);
  if (row_threads_ == nullptr) return body(0, tokens_);
  row_threads_->for_ranges(tokens_, 1,
                           [&](int64_t begin, int64_t end, int) { body(begin, end - begin); });
}

template <typename T>
template <typename Body>
void CpuOps<T>::over_slabs(int64_t table, int64_t rows, int64_t columns, const Body& body) const {
  const int64_t height = slab_rows(rows, columns, slabs_);
  for (int64_t first = 0; first < rows; first += height) {
    const int64_t count = std::min(height, rows - first);
    body(tensor::GradientRange{table + first * columns, count * columns});
  }
}

template <typename T>
template <typename Body>
void CpuOps<T>::sum_norm_gradient(const tensor::GradientRange& range, const Body& body) {
  {
    const TimedScope timed(times_.between);
    std::fill_n(dnorm_.data(), threads_.size() * range.count, 0.0f);
    threads_.for_ranges(tokens_, 1, [&](int64_t begin, int64_t end, int thread) {
      body(begin, end - begin, dnorm_.data() + thread * range.count);
    });
    if (!is_trained(range.offset)) return;
    float* const to = open_accumulator(range);
    for (int thread = 0; thread < threads_.size(); ++thread) {
      tensor::kernels<T>().add(range.count, dnorm_.data() + thread * range.count, to);
    }
  }
  sink_->complete(range);
}

}  // namespace thinwire::model
