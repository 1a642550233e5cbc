// The operations on the CPU: our own fused kernels (tensor/kernels/kernels.h), attention and
// products, over slots that are allocated once. T is the type of operands, float or Bf16.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "thinwire/model/ops.h"
#include "thinwire/tensor/kernels/cross_entropy.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire::model {

template <typename T>
class CpuOps : public Ops {
 public:
  explicit CpuOps(const ModelParts& parts);
  ~CpuOps() override;

  Slot stream(int64_t width) override;
  Slot operand(int64_t width) override;
  Slot rounded(Slot stream) override;
  void plan_norms(double eps) override { norm_eps_ = static_cast<float>(eps); }
  void plan_attention(int64_t layers, const tensor::AttentionShape& shape, double theta) override;

  void begin_batch(const Batch& batch, bool keep) override;
  void begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) override;
  void drop(std::initializer_list<Slot>) override {}

  void embed(int64_t table, Slot x) override;
  void add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) override;
  void linear(const Linear& linear, Slot x, Slot y) override;
  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override;
  void swiglu(Slot gate_up, Slot out) override;

  void clear(Slot dx) override;
  void norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx, Slot dx_rounded,
                     Slot out) override;
  void linear_backward_input(const Linear& linear, Slot dy, Slot dx) override;
  void linear_backward_weight(const Linear& linear, Slot dy, Slot x) override;
  void attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                          Slot dout) override;
  void swiglu_backward(Slot gate_up, Slot dout, Slot out) override;
  void embed_backward(Slot dx, int64_t table) override;

  void cross_entropy(Slot x, int64_t weight) override;
  void cross_entropy_gradients(Slot x, int64_t weight, float scale, Slot dx) override;
  double loss() override { return loss_; }

  void refresh() override;
  PassTimes times() const override { return times_; }
  size_t bytes() const override;

 protected:
  // Passes over rows run on `row_threads` (null: on the calling thread), in training and in
  // decoding.
  CpuOps(const tensor::Arena& params, ThreadPool& threads, ThreadPool* row_threads,
         int64_t max_tokens, int64_t positions);

  void begin_tokens(const int32_t* inputs, int64_t rows, int64_t sequence);
  float* floats(Slot slot) { return static_cast<float*>(slots_[slot].data()); }
  T* operands(Slot slot) { return static_cast<T*>(slots_[slot].data()); }
  int64_t width(Slot slot) const { return slots_[slot].width; }
  const float* parameters() const { return params_.all().data(); }
  const T* weights() const;

  ThreadPool& threads_;
  std::optional<tensor::RopeTable> rope_;
  std::vector<tensor::AttentionScratch> scratch_;  // for each thread
  int64_t rows_ = 0, sequence_ = 0, tokens_ = 0;   // of the current batch

 private:
  struct Values {
    int64_t width;
    tensor::AlignedBuffer<uint8_t> bytes;
    void* data() { return bytes.data(); }
  };
  // A copy of the parameters rounded to T, which the optimizer may keep up to date.
  class Copy;

  Slot add_slot(int64_t width, size_t value_bytes);
  // Calls body(first, count) over the batch's tokens, split over the threads.
  template <typename Body>
  void over_tokens(const Body& body);
  // Calls body(row, key and value head, scratch).
  template <typename Body>
  void over_heads(const tensor::AttentionShape& shape, const Body& body);

  // Opens the gradient of a range that is summed piece by piece; zeroed if it was not there before.
  float* open_sum(const tensor::GradientRange& range);

  const int64_t max_tokens_, positions_;
  int64_t vocabulary_ = 0;
  float norm_eps_ = 0;
  const tensor::Arena& params_;
  ThreadPool* const row_threads_;
  std::vector<Values> slots_;
  std::unique_ptr<Copy> copy_;
  std::unique_ptr<tensor::LinearCrossEntropy<T>> head_;
  tensor::AlignedBuffer<float> dnorm_;  // a norm weight's gradient for each thread
  ProjectedFactors<T> factors_;
  const int32_t* inputs_ = nullptr;  // of the current batch
  const Batch* batch_ = nullptr;
  tensor::GradientSink* sink_ = nullptr;
  double loss_ = 0;
  PassTimes times_;
};

}  // namespace thinwire::model
