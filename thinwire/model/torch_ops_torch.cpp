#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/model/torch_adapters.h"
#include "thinwire/model/torch_arithmetic.h"
#include "thinwire/model/torch_attention.h"
#include "thinwire/model/torch_encoder.h"
#include "thinwire/model/torch_gradients.h"
#include "thinwire/model/torch_ops.h"
#include "thinwire/model/torch_parameters.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {
namespace {

// Parts of the gradient of a norm's weight, each summed by one thread block of a GPU.
constexpr int64_t kCudaNormBlocks = 512;

template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <typename T>
class TorchOps final : public Ops {
 public:
  TorchOps(const ModelParts& parts, int64_t head_chunk)
      : place_(*parts.placement),
        fp32_(at::TensorOptions(at::kFloat).device(torch_device(place_))),
        operand_(fp32_.dtype(kIsFloat ? at::kFloat : at::kBFloat16)),
        vocabulary_(parts.model.vocab),
        outputs_(method::find_architecture(parts.model.architecture).outputs(parts.model)),
        params_(parts),
        adapters_(parts.adapter, params_),
        threads_(parts.threads),
        positions_(parts.sequence),
        head_chunk_(head_chunk),
        gradients_(place_),
        attention_(place_, parts.threads) {
    choose_torch_arithmetic();
  }

  Slot stream(int64_t width) override { return add_slot(width, fp32_); }
  Slot operand(int64_t width) override { return add_slot(width, operand_); }
  Slot rounded(Slot stream) override {
    return kIsFloat ? stream : operand(slots_[static_cast<size_t>(stream)].width);
  }

  void plan_norms(double eps, int64_t) override { norm_eps_ = static_cast<float>(eps); }

  void plan_attention(int64_t, const tensor::AttentionShape& shape, const RopeSpec& rope) override {
    attention_.plan(positions_, shape, rope);
  }

  void begin_batch(const Batch& batch, bool keep) override {
    at::set_num_threads(threads_.size());
    c10::GradMode::set_enabled(false);  // on this thread
    tokens_ = batch.tokens();
    attention_.begin_batch(batch, keep);
    inputs_N_ = to_device(batch.inputs(), tokens_, at::kInt);
    targets_N_ = to_device(batch.targets(), tokens_, at::kInt);
    take_weights(batch);
    batch_ = &batch;
  }

  void take_weights(const Batch& batch) override {
    weights_N_ = batch.weights() == nullptr ? at::Tensor() : to_device(batch.weights(), tokens_);
  }

  void begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) override {
    gradients_.begin(sink, pass);
  }

  void drop(std::initializer_list<Slot> slots) override {
    for (const Slot slot : slots) {
      value(slot) = at::Tensor();
      attention_.drop(slot);
    }
  }

  void embed(int64_t table, Slot x) override {
    launch(tensor::Embed{width(x), data<int32_t>(inputs_N_), params_.values(table),
                         data<float>(fresh(x))},
           tokens_);
  }

  void add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) override {
    const int64_t c = width(out);
    const at::Tensor from = value(x);  // its slot may now be overwritten
    const T* const delta = branch == kNoSlot ? nullptr : data<T>(value(branch));
    launch(tensor::AddRmsNorm<T>{c, norm_eps_, data<float>(from), delta, params_.values(weight),
                                 data<float>(fresh(saved.x_NC)), data<float>(fresh(saved.rstd_N)),
                                 data<T>(fresh(out))},
           tokens_);
  }

  void keep(Slot x, Slot kept) override { fresh(kept).copy_(value(x)); }
  void restore(Slot kept, Slot x) override { fresh(x).copy_(value(kept)); }
  void add_branch(Slot x, Slot branch, Slot sum, Slot out) override {
    const at::Tensor from = value(x);  // its slot may now be overwritten
    const at::Tensor to = fresh(sum).copy_(from);
    if (branch != kNoSlot) to.add_(value(branch));
    fresh(out).copy_(to);
  }

  void linear(const Linear& linear, Slot x, Slot y) override {
    const at::Tensor from = value(x), to = fresh(y);
    for (const Linear::Part& part : linear.parts()) {
      at::Tensor columns = to.narrow(1, part.column, part.outputs);
      at::mm_out(columns, from, matrix(linear, part).t());
    }
    adapters_.forward(linear, from, to);
  }

  void add_bias(const Bias& bias, Slot y) override {
    for (const Bias::Part& part : bias.parts()) {
      const auto [offset, count] = part.range;
      value(y).narrow(1, part.column, count).add_(vector(offset, count));
    }
  }

  void norm_columns(const NormColumns& norm, Slot x, const PreNormSlots& saved) override {
    const at::Tensor raw = fitting(saved.x_NW), rstd = fitting(saved.rstd_NG);
    launch(
        tensor::NormGroupsForward<T>{norm.groups, norm.width, width(x), width(saved.x_NW),
                                     width(saved.rstd_NG), norm_eps_, params_.values(norm.weight),
                                     data<T>(value(x)) + norm.column, data<T>(raw) + norm.column,
                                     data<float>(rstd) + norm.statistic},
        tokens_);
  }

  void add_positions(const PositionTables& tables, Slot x) override {
    const at::Tensor rows = table(tables.positions, tables.position_rows, x);
    value(x).add_(rows.index_select(0, positions_of(tables)));
    value(x).add_(table(tables.types, tables.type_rows, x).select(0, 0));
  }

  void layer_norm(const LayerNorm& norm, Slot x, Slot branch, const LayerNormSlots& saved, Slot y,
                  Slot out) override {
    const TorchNormed normed =
        torch_layer_norm(branch == kNoSlot ? value(x) : value(x).add(value(branch)), norm_eps_);
    value(saved.normed_NC) = normed.normed_NC;
    value(saved.rstd_N) = normed.rstd_N1;
    layer_norm_again(norm, saved, y, out);
  }

  void layer_norm_again(const LayerNorm& norm, const LayerNormSlots& saved, Slot y,
                        Slot out) override {
    const int64_t c = width(out);
    value(y) =
        scaled_and_shifted(value(saved.normed_NC), vector(norm.weight, c), vector(norm.bias, c));
    fresh(out).copy_(value(y));
  }

  void gelu(Slot x, Slot out) override { fresh(out).copy_(at::gelu(value(x))); }
  void tanh(Slot x) override { value(x) = value(x).tanh(); }

  void select_first(Slot x, Slot out) override {
    const ClassTargets selected = class_targets(*batch_, outputs_);
    tokens_ = static_cast<int64_t>(selected.first.size());
    selected_D_ = to_device(selected.first.data(), tokens_, at::kLong);
    targets_N_ = to_device(selected.classes.data(), tokens_, at::kInt);
    weights_N_ = to_device(selected.weights.data(), tokens_);
    fresh(out).copy_(value(x).index_select(0, selected_D_));
  }

  void attention(int64_t, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override {
    value(slots.out_NC) = attention_.forward(slots.qkv_NW, shape, value(slots.qkv_NW));
  }

  void swiglu(Slot gate_up, Slot out) override {
    launch(tensor::SwiGlu<T>{width(out), data<T>(value(gate_up)), data<T>(fresh(out))}, tokens_);
  }

  void clear(Slot dx) override { value(dx) = at::zeros({tokens_, width(dx)}, fp32_); }

  void norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx, Slot dx_rounded,
                     Slot out) override {
    const int64_t c = width(dx);
    const int64_t blocks = norm_blocks();
    const at::Tensor dweight_BC = at::empty({blocks, c}, fp32_);
    T* const rounded_NC = kIsFloat ? nullptr : data<T>(fitting(dx_rounded));
    launch(tensor::RmsNormBackward<T>{tokens_, c, blocks, data<float>(value(saved.x_NC)),
                                      data<float>(value(saved.rstd_N)), params_.values(weight),
                                      data<T>(value(dout)), data<float>(value(dx)), rounded_NC,
                                      data<float>(dweight_BC), data<T>(fitting(out))},
           blocks);
    gradients_.add_vector({weight, c}, dweight_BC.sum(0));
  }

  void add_branch_backward(Slot sum, Slot dout, Slot dx, Slot dx_rounded, Slot out) override {
    value(dx).add_(value(dout));
    if constexpr (!kIsFloat) fitting(dx_rounded).copy_(value(dx));
    fitting(out).copy_(value(sum));
  }

  void norm_columns_backward(const NormColumns& norm, const PreNormSlots& saved, Slot dout,
                             Slot dx) override {
    const int64_t blocks = norm_blocks();
    const at::Tensor dweight_BW = at::empty({blocks, norm.width}, fp32_);
    const at::Tensor to = fitting(dx);
    launch(
        tensor::NormGroupsBackward<T>{
            tokens_, blocks, norm.groups, norm.width, width(dx), width(saved.x_NW),
            width(saved.rstd_NG), data<T>(value(saved.x_NW)) + norm.column,
            data<float>(value(saved.rstd_NG)) + norm.statistic, params_.values(norm.weight),
            data<T>(value(dout)) + norm.column, data<T>(to) + norm.column, data<float>(dweight_BW)},
        blocks);
    gradients_.add_vector({norm.weight, norm.width}, dweight_BW.sum(0));
  }

  void bias_backward(const Bias& bias, Slot dy) override {
    for (const Bias::Part& part : bias.parts()) {
      const at::Tensor columns = value(dy).narrow(1, part.column, part.range.count);
      gradients_.add_vector(part.range, columns.sum(0, false, at::kFloat));
    }
  }

  void linear_backward_input(const Linear& linear, Slot dy, Slot dx) override {
    const at::Tensor from = value(dy);
    at::Tensor to = fresh(dx);
    for (const Linear::Part& part : linear.parts()) {
      const at::Tensor columns = from.narrow(1, part.column, part.outputs);
      const at::Tensor weight = matrix(linear, part);
      &part == linear.parts().data() ? at::mm_out(to, columns, weight) : to.addmm_(columns, weight);
    }
    adapters_.backward_input(linear, from, to);
  }

  void linear_backward_weight(const Linear& linear, Slot dy, Slot x) override {
    for (const Linear::Part& part : linear.gradient_parts(gradients_.sink())) {
      gradients_.add_matrix(part.offset, value(dy).narrow(1, part.column, part.outputs), value(x));
    }
    adapters_.backward_weight(linear, value(dy), value(x),
                              std::bind_front(&TorchGradients<T>::add_matrix, &gradients_));
  }

  void attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                          Slot dout) override {
    value(slots.qkv_NW) = attention_.backward(slots.qkv_NW, shape, value(dout));
  }

  void swiglu_backward(Slot gate_up, Slot dout, Slot out) override {
    launch(tensor::SwiGluBackward<T>{width(out), data<T>(value(gate_up)), data<T>(value(dout)),
                                     data<T>(fitting(out))},
           tokens_);
  }

  void embed_backward(Slot dx, int64_t table) override {
    gradients_.add_rows(table, vocabulary_, value(dx), inputs_N_);
  }

  void positions_backward(Slot dx, const PositionTables& tables) override {
    gradients_.add_rows(tables.types, tables.type_rows, value(dx),
                        at::zeros({tokens_}, inputs_N_.options()));
    gradients_.add_rows(tables.positions, tables.position_rows, value(dx), positions_of(tables));
  }

  void layer_norm_backward(const LayerNorm& norm, const LayerNormSlots& saved, Slot dout, Slot dx,
                           Slot dx_rounded, Slot out) override {
    const int64_t c = width(dx);
    const at::Tensor normed = value(saved.normed_NC);
    const at::Tensor dy = value(dx).add(value(dout)), weight = vector(norm.weight, c);
    gradients_.add_vector({norm.weight, c}, dy.mul(normed).sum(0));
    gradients_.add_vector({norm.bias, c}, dy.sum(0));
    value(dx) = torch_layer_norm_backward({normed, value(saved.rstd_N)}, weight, dy);
    if constexpr (!kIsFloat) fitting(dx_rounded).copy_(value(dx));
    fitting(out).copy_(scaled_and_shifted(normed, weight, vector(norm.bias, c)));
  }

  void gelu_backward(Slot x, Slot dout, Slot out) override {
    const at::Tensor before = value(x), gradient = value(dout);
    value(x) = at::gelu_backward(gradient, before);
    value(out) = at::gelu(before);
  }

  void tanh_backward(Slot y, Slot dout) override {
    value(dout) = at::tanh_backward(value(dout), value(y));
  }

  void select_first_backward(Slot dout, Slot dx) override {
    tokens_ = batch_->tokens();
    fresh(dx).zero_().index_copy_(0, selected_D_, value(dout));
  }

  void cross_entropy(const Head& head) override { compute_losses(head, 0, false); }
  void cross_entropy_gradients(const Head& head, float scale) override {
    fresh(head.dx_NC);
    compute_losses(head, scale, true);
  }
  void head_bias_backward(const Head& head) override {
    if (head.bias != Head::kNoBias) gradients_.add_vector({head.bias, head.outputs}, dbias_);
  }
  void head_logits(const Head& head, std::span<float> out) override {
    const at::Tensor weight = params_.matrix(head.weight, head.outputs, width(head.x_NC));
    const at::Tensor logits = add_head_bias(head, at::mm(value(head.x_NC), weight.t()));
    at::from_blob(out.data(), {tokens_, head.outputs}, at::TensorOptions(at::kFloat)).copy_(logits);
  }
  double loss() override { return losses_.sum(at::kDouble).template item<double>(); }
  void document_losses(const Head& head, std::span<double> losses) override {
    cross_entropy(head);
    const at::Tensor host = losses_.cpu();
    sum_by_document(*batch_, {data<float>(host), static_cast<size_t>(tokens_)}, losses);
  }

  void refresh() override { params_.refresh(); }
  void refresh_frozen() override { params_.refresh_frozen(); }

  size_t bytes() const override { return max_bytes_; }

 private:
  static constexpr bool kIsFloat = std::is_same_v<T, float>;

  struct Values {
    int64_t width;
    at::TensorOptions options;
    at::Tensor tensor;  // [tokens, width], once written
  };
  Slot add_slot(int64_t width, const at::TensorOptions& options) {
    slots_.push_back({width, options, {}});
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

  int64_t norm_blocks() const {
    return std::min(tokens_,
                    place_.kind == Device::kCuda ? kCudaNormBlocks : int64_t{threads_.size()});
  }

  at::Tensor to_device(const void* values, int64_t count, at::ScalarType type = at::kFloat) {
    return at::from_blob(const_cast<void*>(values), {count}, at::TensorOptions(type))
        .to(fp32_.device(), /*non_blocking=*/false, /*copy=*/true);
  }

  template <typename Kernel>
  void launch(const Kernel& kernel, int64_t rows) {
    tensor::launch(place_, threads_, kernel, rows);
  }

  at::Tensor table(int64_t offset, int64_t rows, Slot like) const {
    return at::from_blob(const_cast<float*>(params_.values(offset)), {rows, width(like)}, fp32_);
  }
  // Of each token, the row of the table of positions.
  at::Tensor positions_of(const PositionTables& tables) {
    return torch_positions(*batch_, tables.first).to(fp32_.device());
  }

  // Parameters in fp32.
  at::Tensor vector(int64_t offset, int64_t count) const {
    return at::from_blob(const_cast<float*>(params_.values(offset)), {count}, fp32_);
  }

  at::Tensor matrix(const Linear& linear, const Linear::Part& part) const {
    return params_.matrix(part.offset, part.outputs, linear.inputs());
  }

  at::Tensor add_head_bias(const Head& head, const at::Tensor& logits) {
    if (head.bias != Head::kNoBias) logits.add_(vector(head.bias, head.outputs));
    return logits;
  }

  // Computes the losses and, if wanted, their gradients for the head's input, weight and bias.
  void compute_losses(const Head& head, float scale, bool gradients) {
    count_bytes();
    const int64_t c = width(head.x_NC), outputs = head.outputs;
    const at::Tensor weight = params_.matrix(head.weight, outputs, c);
    losses_ = at::empty({tokens_}, fp32_);
    at::Tensor dweight;
    if (gradients && is_trained(head.weight)) dweight = gradients_.open(head.weight, outputs, c);
    if (head.bias != Head::kNoBias) dbias_ = at::zeros({outputs}, fp32_);
    for (int64_t first = 0; first < tokens_; first += head_chunk_) {
      const int64_t count = std::min(head_chunk_, tokens_ - first);
      const at::Tensor hidden = value(head.x_NC).narrow(0, first, count);
      const at::Tensor logits = add_head_bias(head, at::mm(hidden, weight.t()));
      const float* const factors = weights_N_.defined() ? data<float>(weights_N_) + first : nullptr;
      launch(tensor::CrossEntropy<T>{outputs, data<int32_t>(targets_N_) + first, factors, gradients,
                                     scale, data<T>(logits), data<float>(losses_) + first},
             count);
      if (!gradients) continue;
      at::Tensor branch = value(head.dx_NC).narrow(0, first, count);
      at::mm_out(branch, logits, weight);
      if (dweight.defined()) gradients_.add_product(dweight, logits, hidden);
      if (head.bias != Head::kNoBias) dbias_.add_(logits.sum(0, false, at::kFloat));
    }
  }

  // Counts what is held at the end of the forward pass, where it is largest.
  void count_bytes() {
    size_t sum = attention_.bytes() + inputs_N_.nbytes() + targets_N_.nbytes();
    sum += params_.copied_bytes();
    for (const Values& values : slots_) {
      if (values.tensor.defined()) sum += values.tensor.nbytes();
    }
    max_bytes_ = std::max(max_bytes_, sum);
  }

  const tensor::DevicePlace place_;
  const at::TensorOptions fp32_, operand_;
  const int64_t vocabulary_, outputs_;
  TorchParameters params_;
  const TorchAdapters adapters_;
  ThreadPool& threads_;
  const int64_t positions_, head_chunk_;
  float norm_eps_ = 0;

  std::vector<Values> slots_;
  TorchGradients<T> gradients_;
  TorchAttention<T> attention_;
  at::Tensor inputs_N_, targets_N_, weights_N_, losses_;  // of the current batch
  at::Tensor selected_D_;                                 // after select_first()
  at::Tensor dbias_;                                      // of the head
  const Batch* batch_ = nullptr;                          // the current one
  int64_t tokens_ = 0;                                    // its tokens
  size_t max_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Ops> make_torch_ops(const ModelParts& parts, int64_t head_chunk) {
  if (parts.precision == Precision::kBf16) {
    return std::make_unique<TorchOps<Bf16>>(parts, head_chunk);
  }
  return std::make_unique<TorchOps<float>>(parts, head_chunk);
}

}  // namespace thinwire::model
