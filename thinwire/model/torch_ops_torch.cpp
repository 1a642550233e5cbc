#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/model/torch_arithmetic.h"
#include "thinwire/model/torch_ops.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {
namespace {

// Parts of the gradient of a norm's weight, each summed by one thread block of a GPU.
constexpr int64_t kCudaNormBlocks = 512;

at::TensorOptions options_of(const tensor::DevicePlace& place) {
  if (place.kind == Device::kCpu) return at::TensorOptions(c10::kCPU);
  return at::TensorOptions(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(place.index)));
}

template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <typename T>
class TorchOps final : public Ops {
 public:
  TorchOps(const ModelParts& parts, int64_t head_chunk)
      : place_(*parts.placement),
        fp32_(options_of(place_).dtype(at::kFloat)),
        operand_(fp32_.dtype(kIsFloat ? at::kFloat : at::kBFloat16)),
        vocabulary_(parts.model.vocab),
        params_(parts.params),
        threads_(parts.threads),
        positions_(parts.sequence),
        head_chunk_(head_chunk) {
    choose_torch_arithmetic();
    params_.mirror_on(place_);
    refresh();
  }

  Slot stream(int64_t width) override { return add_slot(width, fp32_); }
  Slot operand(int64_t width) override { return add_slot(width, operand_); }
  Slot rounded(Slot stream) override {
    return kIsFloat ? stream : operand(slots_[static_cast<size_t>(stream)].width);
  }

  void plan_norms(double eps) override { norm_eps_ = static_cast<float>(eps); }

  void plan_attention(int64_t, const tensor::AttentionShape& shape, double theta) override {
    const int64_t angles = positions_ * shape.head_size / 2;
    const tensor::RopeTable rope(positions_, shape.head_size, theta);
    cosine_ = to_device(rope.cosine(0), angles);
    sine_ = to_device(rope.sine(0), angles);
  }

  void begin_batch(const Batch& batch, bool keep) override {
    at::set_num_threads(threads_.size());
    c10::GradMode::set_enabled(false);  // on this thread
    keep_ = keep;
    rows_ = batch.rows();
    sequence_ = batch.sequence();
    tokens_ = batch.tokens();
    inputs_N_ = to_device(batch.inputs(), tokens_, at::kInt);
    targets_N_ = to_device(batch.targets(), tokens_, at::kInt);
    weights_N_ = batch.weights() == nullptr ? at::Tensor() : to_device(batch.weights(), tokens_);
  }

  void begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) override {
    sink_ = &sink;
    sink.begin(pass, &place_);
  }

  void drop(std::initializer_list<Slot> slots) override {
    for (const Slot slot : slots) {
      value(slot) = at::Tensor();
      attended_[static_cast<size_t>(slot)] = {};
    }
  }

  void embed(int64_t table, Slot x) override {
    launch(tensor::Embed{width(x), data<int32_t>(inputs_N_), data<float>(master_) + table,
                         data<float>(fresh(x))},
           tokens_);
  }

  void add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) override {
    const int64_t c = width(out);
    const at::Tensor from = value(x);  // its slot may now be overwritten
    const T* const delta = branch == kNoSlot ? nullptr : data<T>(value(branch));
    launch(tensor::AddRmsNorm<T>{c, norm_eps_, data<float>(from), delta,
                                 data<float>(master_) + weight, data<float>(fresh(saved.x_NC)),
                                 data<float>(fresh(saved.rstd_N)), data<T>(fresh(out))},
           tokens_);
  }

  void linear(const Linear& linear, Slot x, Slot y) override {
    const at::Tensor from = value(x), to = fresh(y);
    for (const Linear::Part& part : linear.parts()) {
      at::Tensor columns = to.narrow(1, part.column, part.outputs);
      at::mm_out(columns, from, matrix(weights_, part.offset, part.outputs, linear.inputs()).t());
    }
  }

  void attention(int64_t, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override {
    const at::Tensor qkv = value(slots.qkv_NW);
    rotate(shape, qkv, 1);
    const Attended attended = attend(shape, qkv);
    value(slots.out_NC) = attended.out.detach().transpose(1, 2).reshape({tokens_, shape.width()});
    if (keep_) attended_[static_cast<size_t>(slots.qkv_NW)] = attended;
  }

  void swiglu(Slot gate_up, Slot out) override {
    launch(tensor::SwiGlu<T>{width(out), data<T>(value(gate_up)), data<T>(fresh(out))}, tokens_);
  }

  void clear(Slot dx) override { value(dx) = at::zeros({tokens_, width(dx)}, fp32_); }

  void norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx, Slot dx_rounded,
                     Slot out) override {
    const int64_t c = width(dx);
    const int64_t wanted = place_.kind == Device::kCuda ? kCudaNormBlocks : threads_.size();
    const int64_t blocks = std::min(tokens_, wanted);
    const at::Tensor dweight_BC = at::empty({blocks, c}, fp32_);
    T* const rounded_NC = kIsFloat ? nullptr : data<T>(fitting(dx_rounded));
    launch(
        tensor::RmsNormBackward<T>{tokens_, c, blocks, data<float>(value(saved.x_NC)),
                                   data<float>(value(saved.rstd_N)), data<float>(master_) + weight,
                                   data<T>(value(dout)), data<float>(value(dx)), rounded_NC,
                                   data<float>(dweight_BC), data<T>(fitting(out))},
        blocks);
    const tensor::GradientRange range = {weight, c};
    sum_in(sink_->open(range), 1, c).add_(dweight_BC.sum(0));
    sink_->complete(range);
  }

  void linear_backward_input(const Linear& linear, Slot dy, Slot dx) override {
    const at::Tensor from = value(dy);
    at::Tensor to = fresh(dx);
    for (const Linear::Part& part : linear.parts()) {
      const at::Tensor columns = from.narrow(1, part.column, part.outputs);
      const at::Tensor weight = matrix(weights_, part.offset, part.outputs, linear.inputs());
      part.column == 0 ? at::mm_out(to, columns, weight) : to.addmm_(columns, weight);
    }
  }

  void linear_backward_weight(const Linear& linear, Slot dy, Slot x) override {
    for (const Linear::Part& part : linear.gradient_parts(*sink_)) {
      const tensor::GradientRange range = linear.range(part);
      const tensor::OpenGradient to = sink_->open(range);
      const auto& [left_basis, right_basis, rank] = to.projection;
      const at::Tensor left =
          project(value(dy).narrow(1, part.column, part.outputs), left_basis, rank);
      const at::Tensor right = project(value(x), right_basis, rank);
      add_product(sum_in(to, left.size(1), right.size(1)), left, right);
      sink_->complete(range);
    }
  }

  void attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                          Slot dout) override {
    const Attended& kept = attended_[static_cast<size_t>(slots.qkv_NW)];
    const std::vector<at::Tensor> gradients = torch::autograd::grad(
        {kept.out}, {kept.q, kept.k, kept.v}, {heads_of(shape, value(dout), 0, shape.heads)});
    const at::Tensor dqkv = fresh(slots.qkv_NW);
    int64_t first = 0;
    for (const at::Tensor& gradient : gradients) {
      heads_of(shape, dqkv, first, gradient.size(1)).copy_(gradient);
      first += gradient.size(1);
    }
    rotate(shape, dqkv, -1);
  }

  void swiglu_backward(Slot gate_up, Slot dout, Slot out) override {
    launch(tensor::SwiGluBackward<T>{width(out), data<T>(value(gate_up)), data<T>(value(dout)),
                                     data<T>(fresh(out))},
           tokens_);
  }

  void embed_backward(Slot dx, int64_t table) override {
    const tensor::GradientRange range = {table, vocabulary_ * width(dx)};
    sum_in(sink_->open(range), vocabulary_, width(dx))
        .add_(at::embedding_dense_backward(value(dx), inputs_N_, vocabulary_, -1, false));
    sink_->complete(range);
  }

  void cross_entropy(Slot x, int64_t weight) override { head(x, weight, 0, kNoSlot); }
  void cross_entropy_gradients(Slot x, int64_t weight, float scale, Slot dx) override {
    fresh(dx);
    head(x, weight, scale, dx);
  }
  double loss() override { return losses_.sum(at::kDouble).template item<double>(); }

  void refresh() override {
    const at::Tensor values =
        at::from_blob(const_cast<float*>(std::as_const(params_).device_values()),
                      {params_.layout().total()}, fp32_);
    master_ = values;
    if constexpr (kIsFloat) {
      weights_ = values;
    } else {
      if (!weights_.defined()) weights_ = at::empty({params_.layout().total()}, operand_);
      weights_.copy_(values);
    }
  }

  size_t bytes() const override { return most_bytes_; }

 private:
  static constexpr bool kIsFloat = std::is_same_v<T, float>;

  struct Values {
    int64_t width;
    at::TensorOptions options;
    at::Tensor tensor;  // [tokens, width], once written
  };
  // What autograd needs for attention's backward pass: [rows, heads, positions, head size].
  struct Attended {
    at::Tensor q, k, v, out;
  };

  Slot add_slot(int64_t width, const at::TensorOptions& options) {
    slots_.push_back({width, options, {}});
    attended_.emplace_back();
    return static_cast<Slot>(slots_.size()) - 1;
  }
  int64_t width(Slot slot) const { return slots_[static_cast<size_t>(slot)].width; }
  at::Tensor& value(Slot slot) { return slots_[static_cast<size_t>(slot)].tensor; }
  // Gives the slot new uninitialised memory; holders of the old values keep them.
  at::Tensor fresh(Slot slot) {
    value(slot) = at::Tensor();
    return fitting(slot);
  }
  // Gives the slot memory for the batch, its existing memory if that is large enough.
  at::Tensor fitting(Slot slot) {
    Values& values = slots_[static_cast<size_t>(slot)];
    if (!values.tensor.defined() || values.tensor.size(0) != tokens_) {
      values.tensor = at::Tensor();
      values.tensor = at::empty({tokens_, values.width}, values.options);
    }
    return values.tensor;
  }

  at::Tensor to_device(const void* values, int64_t count, at::ScalarType type = at::kFloat) {
    return at::from_blob(const_cast<void*>(values), {count}, at::TensorOptions(type))
        .to(fp32_.device(), /*non_blocking=*/false, /*copy=*/true);
  }

  template <typename Kernel>
  void launch(const Kernel& kernel, int64_t rows) {
    tensor::launch(place_, threads_, kernel, rows);
  }

  // The opened gradient, to be added to; zero where nothing was there.
  at::Tensor sum_in(const tensor::OpenGradient& to, int64_t rows, int64_t columns) {
    at::Tensor sum = at::from_blob(to.values, {rows, columns}, fp32_);
    if (to.keep == 0) sum.zero_();
    return sum;
  }

  // The factor of a gradient in the basis [rank, width] in host memory; null: as it is.
  at::Tensor project(const at::Tensor& factor, const float* basis, int64_t rank) {
    if (basis == nullptr) return factor;
    const at::Tensor host = at::from_blob(const_cast<float*>(basis), {rank, factor.size(1)},
                                          at::TensorOptions(at::kFloat));
    return at::mm(factor, host.to(operand_.device(), kIsFloat ? at::kFloat : at::kBFloat16).t());
  }

  at::Tensor matrix(const at::Tensor& arena, int64_t offset, int64_t outputs, int64_t inputs) {
    return arena.narrow(0, offset, outputs * inputs).view({outputs, inputs});
  }

  // The fp32 gradient += dy^T x.
  void add_product(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x) {
    if constexpr (kIsFloat) {
      gradient.addmm_(dy.t(), x);
    } else {
      gradient.add_(at::mm(dy.t(), x));
    }
  }

  void rotate(const tensor::AttentionShape& shape, const at::Tensor& qkv, float direction) {
    launch(tensor::Rotate<T>{sequence_, shape.heads + shape.kv_heads, shape.head_size / 2,
                             shape.qkv_width(), direction, data<float>(cosine_), data<float>(sine_),
                             data<T>(qkv)},
           tokens_);
  }

  // `count` heads of values [tokens, width], the first of which is `first`, as [rows, count,
  // positions, head size].
  at::Tensor heads_of(const tensor::AttentionShape& shape, const at::Tensor& values, int64_t first,
                      int64_t count) {
    return values.view({rows_, sequence_, -1, shape.head_size})
        .narrow(2, first, count)
        .transpose(1, 2);
  }

  // Repeats each key or value head for all query heads that share it.
  at::Tensor for_queries(const tensor::AttentionShape& shape, const at::Tensor& heads) {
    if (shape.group() == 1) return heads;
    return heads.unsqueeze(2)
        .expand({rows_, shape.kv_heads, shape.group(), sequence_, shape.head_size})
        .reshape({rows_, shape.heads, sequence_, shape.head_size});
  }

  Attended attend(const tensor::AttentionShape& shape, const at::Tensor& qkv) {
    const c10::AutoGradMode autograd(keep_);
    const auto part = [&](int64_t first, int64_t count) {
      return heads_of(shape, qkv, first, count).detach().set_requires_grad(keep_);
    };
    Attended a{part(0, shape.heads),
               part(shape.heads, shape.kv_heads),
               part(shape.heads + shape.kv_heads, shape.kv_heads),
               {}};
    a.out = at::scaled_dot_product_attention(a.q, for_queries(shape, a.k), for_queries(shape, a.v),
                                             {}, 0.0, /*is_causal=*/true,
                                             static_cast<double>(shape.score_scale()));
    return a;
  }

  // Computes the losses and, if dx is a slot, their gradients for x (there) and for the weight.
  void head(Slot x, int64_t offset, float scale, Slot dx) {
    count_bytes();
    const bool gradients = dx != kNoSlot;
    const int64_t c = width(x);
    const at::Tensor weight = matrix(weights_, offset, vocabulary_, c);
    losses_ = at::empty({tokens_}, fp32_);
    at::Tensor dweight;
    const tensor::GradientRange range = {offset, vocabulary_ * c};
    if (gradients) dweight = sum_in(sink_->open(range), vocabulary_, c);
    for (int64_t first = 0; first < tokens_; first += head_chunk_) {
      const int64_t count = std::min(head_chunk_, tokens_ - first);
      const at::Tensor hidden = value(x).narrow(0, first, count);
      const at::Tensor logits = at::mm(hidden, weight.t());
      const float* const factors = weights_N_.defined() ? data<float>(weights_N_) + first : nullptr;
      launch(
          tensor::CrossEntropy<T>{vocabulary_, data<int32_t>(targets_N_) + first, factors,
                                  gradients, scale, data<T>(logits), data<float>(losses_) + first},
          count);
      if (!gradients) continue;
      at::Tensor branch = value(dx).narrow(0, first, count);
      at::mm_out(branch, logits, weight);
      add_product(dweight, logits, hidden);
    }
  }

  // Counts what is held at the end of the forward pass, where it is largest.
  void count_bytes() {
    size_t sum = kIsFloat ? 0 : weights_.nbytes();
    for (const at::Tensor& tensor : {cosine_, sine_, inputs_N_, targets_N_}) sum += tensor.nbytes();
    for (const Values& values : slots_) {
      if (values.tensor.defined()) sum += values.tensor.nbytes();
    }
    most_bytes_ = std::max(most_bytes_, sum);
  }

  const tensor::DevicePlace place_;
  const at::TensorOptions fp32_, operand_;
  const int64_t vocabulary_;
  tensor::Arena& params_;
  ThreadPool& threads_;
  const int64_t positions_, head_chunk_;
  float norm_eps_ = 0;

  std::vector<Values> slots_;
  std::vector<Attended> attended_;        // by the slot of queries, keys and values
  at::Tensor master_, weights_;           // the arena in fp32 and as operands
  tensor::GradientSink* sink_ = nullptr;  // of the current pass
  at::Tensor cosine_, sine_;
  at::Tensor inputs_N_, targets_N_, weights_N_, losses_;  // of the current batch
  bool keep_ = false;
  int64_t rows_ = 0, sequence_ = 0, tokens_ = 0;
  size_t most_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Ops> make_torch_ops(const ModelParts& parts, int64_t head_chunk) {
  if (parts.precision == Precision::kBf16) {
    return std::make_unique<TorchOps<Bf16>>(parts, head_chunk);
  }
  return std::make_unique<TorchOps<float>>(parts, head_chunk);
}

}  // namespace thinwire::model
