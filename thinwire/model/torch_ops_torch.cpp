#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
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
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/torch_ops.h"
#include "thinwire/model/torch_parts.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::model {
namespace {

// Parts of the gradient of a norm's weight, each summed by one thread block of a GPU.
constexpr int64_t kCudaNormBlocks = 512;

template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Tokens of a text that are computed together where earlier ones are known.
constexpr int64_t kDecodedTogether = 1024;

// What models and decoders have in common.
struct TorchOpsParts {
  const method::ModelSpec& model;
  const tensor::DevicePlace& place;
  Precision precision;
  const tensor::Arena& params;
  ThreadPool& threads;
  int64_t positions;
  const tensor::Arena* frozen = nullptr;
  method::AdapterSpec adapter = {};
};

template <typename T>
class TorchOps final : public Ops, public Decoding {
 public:
  TorchOps(const TorchOpsParts& parts, int64_t head_chunk)
      : place_(parts.place),
        fp32_(at::TensorOptions(at::kFloat).device(torch_device(place_))),
        vocabulary_(parts.model.vocab),
        outputs_(method::find_architecture(parts.model.architecture).outputs(parts.model)),
        params_(parts.params, parts.frozen, place_, parts.precision),
        adapters_(parts.adapter, params_),
        threads_(parts.threads),
        positions_(parts.positions),
        slots_(place_),
        gradients_(place_),
        attention_(place_, parts.threads),
        head_(place_, parts.threads, params_, gradients_, head_chunk) {
    choose_torch_arithmetic();
  }

  // From here on it computes new tokens of texts only.
  void decode() { cached_.emplace(place_, threads_, positions_); }
  Ops& ops() override { return *this; }
  int64_t chunk() const override { return kDecodedTogether; }
  void grow_to(int64_t length) override { cached_->grow_to(length); }
  void begin_tokens(std::span<const int32_t> tokens, std::vector<Segment> segments) override {
    begin();
    slots_.set_rows(std::ssize(tokens));
    inputs_N_ = to_device(tokens.data(), rows(), at::kInt);
    cached_->begin_tokens(std::move(segments));
  }
  void logits(Slot x, std::span<const int64_t> rows, int64_t weight,
              std::span<float> out) override {
    const int64_t count = std::ssize(rows), vocabulary = std::ssize(out) / count;
    const at::Tensor inputs = value(x).index_select(0, to_device(rows.data(), count, at::kLong));
    at::from_blob(out.data(), {count, vocabulary}, at::TensorOptions(at::kFloat))
        .copy_(at::mm(inputs, params_.matrix(weight, vocabulary, width(x)).t()));
  }

  Slot stream(int64_t width) override { return slots_.add(width, Precision::kFp32); }
  Slot operand(int64_t width) override {
    return slots_.add(width, kIsFloat ? Precision::kFp32 : Precision::kBf16);
  }
  Slot rounded(Slot stream) override { return kIsFloat ? stream : operand(width(stream)); }

  void plan_norms(double eps, int64_t) override { norm_eps_ = static_cast<float>(eps); }

  void plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                      const RopeSpec& rope) override {
    if (cached_) return cached_->plan(layers, shape, rope);
    attention_.plan(positions_, shape, rope);
  }

  void begin_batch(const Batch& batch, bool keep) override {
    begin();
    slots_.set_rows(batch.tokens());
    attention_.begin_batch(batch, keep);
    inputs_N_ = to_device(batch.inputs(), rows(), at::kInt);
    head_.set_targets({batch.targets(), static_cast<size_t>(rows())});
    take_weights(batch);
    batch_ = &batch;
  }

  void take_weights(const Batch& batch) override { head_.set_weights(batch.weights()); }

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
           rows());
  }

  void add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) override {
    const int64_t c = width(out);
    const at::Tensor from = value(x);  // its slot may now be overwritten
    const T* const delta = branch == kNoSlot ? nullptr : data<T>(value(branch));
    launch(tensor::AddRmsNorm<T>{c, norm_eps_, data<float>(from), delta, params_.values(weight),
                                 data<float>(fresh(saved.x_NC)), data<float>(fresh(saved.rstd_N)),
                                 data<T>(fresh(out))},
           rows());
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
        rows());
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
    slots_.set_rows(std::ssize(selected.first));
    selected_D_ = to_device(selected.first.data(), rows(), at::kLong);
    head_.set_targets(selected.classes);
    head_.set_weights(selected.weights.data());
    fresh(out).copy_(value(x).index_select(0, selected_D_));
  }

  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override {
    if (cached_) {
      value(slots.out_NC) = cached_->forward(layer, shape, value(slots.qkv_NW));
      return;
    }
    value(slots.out_NC) = attention_.forward(slots.qkv_NW, shape, value(slots.qkv_NW));
  }

  void swiglu(Slot gate_up, Slot out) override {
    launch(tensor::SwiGlu<T>{width(out), data<T>(value(gate_up)), data<T>(fresh(out))}, rows());
  }

  void clear(Slot dx) override { value(dx) = at::zeros({rows(), width(dx)}, fp32_); }

  void norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx, Slot dx_rounded,
                     Slot out) override {
    const int64_t c = width(dx);
    const int64_t blocks = norm_blocks();
    const at::Tensor dweight_BC = at::empty({blocks, c}, fp32_);
    T* const rounded_NC = kIsFloat ? nullptr : data<T>(fitting(dx_rounded));
    launch(tensor::RmsNormBackward<T>{rows(), c, blocks, data<float>(value(saved.x_NC)),
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
            rows(), blocks, norm.groups, norm.width, width(dx), width(saved.x_NW),
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
           rows());
  }

  void embed_backward(Slot dx, int64_t table) override {
    gradients_.add_rows(table, vocabulary_, value(dx), inputs_N_);
  }

  void positions_backward(Slot dx, const PositionTables& tables) override {
    gradients_.add_rows(tables.types, tables.type_rows, value(dx),
                        at::zeros({rows()}, inputs_N_.options()));
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
    slots_.set_rows(batch_->tokens());
    fresh(dx).zero_().index_copy_(0, selected_D_, value(dout));
  }

  void cross_entropy(const Head& head) override {
    count_bytes();
    head_.losses(head, value(head.x_NC));
  }
  void cross_entropy_gradients(const Head& head, float scale) override {
    count_bytes();
    head_.gradients(head, value(head.x_NC), scale, fresh(head.dx_NC));
  }
  void head_bias_backward(const Head& head) override { head_.bias_backward(head); }
  void head_logits(const Head& head, std::span<float> out) override {
    head_.logits(head, value(head.x_NC), out);
  }
  double loss() override { return head_.loss(); }
  void document_losses(const Head& head, std::span<double> losses) override {
    count_bytes();
    const at::Tensor host = head_.losses(head, value(head.x_NC)).cpu();
    sum_by_document(*batch_, {data<float>(host), static_cast<size_t>(rows())}, losses);
  }

  void refresh() override { params_.refresh(); }
  void refresh_frozen() override { params_.refresh_frozen(); }

  size_t bytes() const override { return max_bytes_; }

 private:
  static constexpr bool kIsFloat = std::is_same_v<T, float>;

  void begin() {
    // Beside a GPU, ATen's own threads on the CPU would only get into the way.
    at::set_num_threads(place_.kind == Device::kCuda ? 1 : threads_.size());
    c10::GradMode::set_enabled(false);  // on this thread
  }

  int64_t width(Slot slot) const { return slots_.width(slot); }
  at::Tensor& value(Slot slot) { return slots_.value(slot); }
  at::Tensor fresh(Slot slot) { return slots_.fresh(slot); }
  at::Tensor fitting(Slot slot) { return slots_.fitting(slot); }
  // What operations work on: tokens, or after select_first() texts.
  int64_t rows() const { return slots_.rows(); }

  int64_t norm_blocks() const {
    return std::min(rows(),
                    place_.kind == Device::kCuda ? kCudaNormBlocks : int64_t{threads_.size()});
  }

  at::Tensor to_device(const void* values, int64_t count, at::ScalarType type) {
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
  // The row of the table of positions for each token.
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

  // Counts what is held at the end of the forward pass, where it is largest.
  void count_bytes() {
    max_bytes_ = std::max(max_bytes_, slots_.bytes() + attention_.bytes() + inputs_N_.nbytes() +
                                          head_.bytes() + params_.copied_bytes());
  }

  const tensor::DevicePlace place_;
  const at::TensorOptions fp32_;
  const int64_t vocabulary_, outputs_;
  TorchParameters params_;
  const TorchAdapters adapters_;
  ThreadPool& threads_;
  const int64_t positions_;
  float norm_eps_ = 0;

  TorchSlots slots_;
  TorchGradients<T> gradients_;
  TorchAttention<T> attention_;
  std::optional<TorchCachedAttention> cached_;  // of a decoder
  TorchHead<T> head_;
  at::Tensor inputs_N_;           // of the current batch
  at::Tensor selected_D_;         // after select_first()
  const Batch* batch_ = nullptr;  // the current one
  size_t max_bytes_ = 0;
};

}  // namespace

bool has_torch_ops() { return true; }

std::unique_ptr<Ops> make_torch_ops(const ModelParts& parts, int64_t head_chunk) {
  parts.params.mirror_on(*parts.placement);
  const TorchOpsParts own = {parts.model,   *parts.placement, parts.precision, parts.params,
                             parts.threads, parts.sequence,   parts.frozen,    parts.adapter};
  if (parts.precision == Precision::kBf16) return std::make_unique<TorchOps<Bf16>>(own, head_chunk);
  return std::make_unique<TorchOps<float>>(own, head_chunk);
}

std::unique_ptr<Decoding> make_torch_decoding(const DecoderParts& parts) {
  const TorchOpsParts own = {parts.model,  *parts.placement, Precision::kFp32,
                             parts.params, parts.threads,    parts.context};
  auto decoding = std::make_unique<TorchOps<float>>(own, kHeadChunk);
  decoding->decode();
  return decoding;
}

}  // namespace thinwire::model
