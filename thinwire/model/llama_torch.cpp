#include "thinwire/model/llama_torch.h"

#include <ATen/Context.h>
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
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/launch.h"

namespace thinwire::model {
namespace {

// Parts of the gradient of a norm's weight, each summed by one block of a GPU's threads.
constexpr int64_t kCudaNormBlocks = 512;

at::TensorOptions options_of(const tensor::DevicePlace& place) {
  if (place.kind == Device::kCpu) return at::TensorOptions(c10::kCPU);
  return at::TensorOptions(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(place.index)));
}

// The same inputs give the same bits, and sums of products are fp32.
void choose_arithmetic() {
  // cuBLAS reads it when it is first used. NOLINTNEXTLINE(concurrency-mt-unsafe)
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <typename T>
class TorchEngine final : public Model {
 public:
  TorchEngine(const ModelParts& parts, int64_t head_chunk)
      : Model(parts),
        place_(*parts.placement),
        fp32_(options_of(place_).dtype(at::kFloat)),
        operand_(fp32_.dtype(kIsFloat ? at::kFloat : at::kBFloat16)),
        model_(parts.model),
        where_(model_, parts.layout),
        recompute_(parse_recompute(model_.recompute)),
        params_(parts.params),
        threads_(parts.threads),
        head_chunk_(head_chunk),
        saved_(static_cast<size_t>(model_.layers)) {
    choose_arithmetic();
    params_.mirror_on(place_);
    const int64_t angles = parts.sequence * model_.head_size() / 2;
    const tensor::RopeTable rope(parts.sequence, model_.head_size(), model_.rope_theta);
    cosine_ = to_device(rope.cosine(0), angles);
    sine_ = to_device(rope.sine(0), angles);
    refresh();
  }

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

  size_t activation_bytes() const override { return most_bytes_; }

 private:
  double batch_gradients(float gradient_scale, tensor::Arena& gradients,
                         const LayerReady& layer_ready, Gradients mode) override {
    gradients.mirror_on(place_);
    if (mode == Gradients::kReplace) gradients.clear();
    const c10::NoGradGuard no_autograd;
    begin_batch();
    forward(true);
    branch_NC_ = at::empty({tokens_, model_.hidden}, operand_);
    use(gradients);
    const at::Tensor losses = head(true, gradient_scale);
    backward(gradients, layer_ready);
    return sum_of(losses);
  }

  double batch_loss() override {
    const c10::NoGradGuard no_autograd;
    begin_batch();
    forward(false);
    return sum_of(head(false, 0));
  }

  static constexpr bool kIsFloat = std::is_same_v<T, float>;

  // Causal attention of a batch with what autograd needs for its backward pass.
  struct Attention {
    at::Tensor q, k, v, out;  // [rows, heads, positions, head size]
  };
  // What the backward pass of one block needs.
  struct Saved {
    at::Tensor attention_x_NC, attention_rstd_N, attention_NC;
    Attention attention;
    at::Tensor mlp_x_NC, mlp_rstd_N, gate_up_N2F;
  };

  at::Tensor to_device(const void* values, int64_t count, at::ScalarType type = at::kFloat) {
    return at::from_blob(const_cast<void*>(values), {count}, at::TensorOptions(type))
        .to(fp32_.device(), /*non_blocking=*/false, /*copy=*/true);
  }
  at::Tensor operand(int64_t columns) { return at::empty({tokens_, columns}, operand_); }
  at::Tensor residual() { return at::empty({tokens_, model_.hidden}, fp32_); }

  template <typename Kernel>
  void launch(const Kernel& kernel, int64_t rows) {
    tensor::launch(place_, threads_, kernel, rows);
  }

  void begin_batch() {
    at::set_num_threads(threads_.size());
    tokens_ = batch().tokens();
    inputs_N_ = to_device(batch().inputs(), tokens_, at::kInt);
    targets_N_ = to_device(batch().targets(), tokens_, at::kInt);
    weights_N_ =
        batch().weights() == nullptr ? at::Tensor() : to_device(batch().weights(), tokens_);
  }

  double sum_of(const at::Tensor& losses) {
    return losses.sum(at::kDouble).template item<double>();
  }

  // The device's gradients; again after others may have looked at them.
  void use(tensor::Arena& gradients) {
    gradients_ = at::from_blob(gradients.device_values(), {gradients.layout().total()}, fp32_);
  }

  at::Tensor matrix(const at::Tensor& arena, int64_t offset, int64_t outputs, int64_t inputs) {
    return arena.narrow(0, offset, outputs * inputs).view({outputs, inputs});
  }
  at::Tensor vector(const at::Tensor& arena, int64_t offset) {
    return arena.narrow(0, offset, model_.hidden);
  }

  at::Tensor forward(const Linear& linear, const at::Tensor& x) {
    at::Tensor y = operand(linear.outputs());
    for (const Linear::Part& part : linear.parts()) {
      at::Tensor columns = y.narrow(1, part.column, part.outputs);
      at::mm_out(columns, x, matrix(weights_, part.offset, part.outputs, linear.inputs()).t());
    }
    return y;
  }

  at::Tensor backward_input(const Linear& linear, const at::Tensor& dy) {
    at::Tensor dx = operand(linear.inputs());
    for (const Linear::Part& part : linear.parts()) {
      const at::Tensor columns = dy.narrow(1, part.column, part.outputs);
      const at::Tensor weight = matrix(weights_, part.offset, part.outputs, linear.inputs());
      part.column == 0 ? at::mm_out(dx, columns, weight) : dx.addmm_(columns, weight);
    }
    return dx;
  }

  // The fp32 gradient += dy^T x.
  void add_product(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x) {
    if constexpr (kIsFloat) {
      gradient.addmm_(dy.t(), x);
    } else {
      gradient.add_(at::mm(dy.t(), x));
    }
  }
  void backward_weight(const Linear& linear, const at::Tensor& dy, const at::Tensor& x) {
    for (const Linear::Part& part : linear.parts()) {
      add_product(matrix(gradients_, part.offset, part.outputs, linear.inputs()),
                  dy.narrow(1, part.column, part.outputs), x);
    }
  }

  // hidden_ = rmsnorm(sum) for sum = x + branch_ (where there is one); returns sum and 1 / its rms.
  std::pair<at::Tensor, at::Tensor> norm(const at::Tensor& x, int64_t weight) {
    at::Tensor sum = residual(), rstd = at::empty({tokens_}, fp32_);
    hidden_NC_ = operand(model_.hidden);
    launch(tensor::AddRmsNorm<T>{model_.hidden, static_cast<float>(model_.norm_eps), data<float>(x),
                                 branch_NC_.defined() ? data<T>(branch_NC_) : nullptr,
                                 data<float>(vector(master_, weight)), data<float>(sum),
                                 data<float>(rstd), data<T>(hidden_NC_)},
           tokens_);
    return {sum, rstd};
  }

  // Adds the norm's gradient to dx_ for the gradient of its output in branch_; hidden_ becomes the
  // norm's output again.
  void backward_norm(const at::Tensor& x, const at::Tensor& rstd, int64_t weight) {
    const int64_t wanted = place_.kind == Device::kCuda ? kCudaNormBlocks : threads_.size();
    const int64_t blocks = std::min(tokens_, wanted);
    const at::Tensor dweight_BC = at::empty({blocks, model_.hidden}, fp32_);
    launch(tensor::RmsNormBackward<T>{tokens_, model_.hidden, blocks, data<float>(x),
                                      data<float>(rstd), data<float>(vector(master_, weight)),
                                      data<T>(branch_NC_), data<float>(dx_NC_),
                                      kIsFloat ? nullptr : data<T>(dx_operand_NC_),
                                      data<float>(dweight_BC), data<T>(hidden_NC_)},
           blocks);
    vector(gradients_, weight).add_(dweight_BC.sum(0));
  }

  void rotate(const at::Tensor& qkv, float direction) {
    const int64_t width = where_.attention.qkv_width();
    launch(tensor::Rotate<T>{batch().sequence(), model_.heads + model_.kv_heads,
                             model_.head_size() / 2, width, direction, data<float>(cosine_),
                             data<float>(sine_), data<T>(qkv)},
           tokens_);
  }

  // `count` heads of qkv [tokens, width], the first of which is `first`, as [rows, count,
  // positions, head size].
  at::Tensor heads_of(const at::Tensor& qkv, int64_t first, int64_t count) {
    return qkv.view({batch().rows(), batch().sequence(), -1, model_.head_size()})
        .narrow(2, first, count)
        .transpose(1, 2);
  }

  // Each key or value head as often as query heads share it.
  at::Tensor for_queries(const at::Tensor& heads) {
    const int64_t group = where_.attention.group();
    if (group == 1) return heads;
    const int64_t rows = batch().rows(), length = batch().sequence(), size = model_.head_size();
    return heads.unsqueeze(2)
        .expand({rows, model_.kv_heads, group, length, size})
        .reshape({rows, model_.heads, length, size});
  }

  Attention attend(const at::Tensor& qkv, bool keep) {
    const c10::AutoGradMode autograd(keep);
    const auto part = [&](int64_t first, int64_t count) {
      return heads_of(qkv, first, count).detach().set_requires_grad(keep);
    };
    Attention a{part(0, model_.heads),
                part(model_.heads, model_.kv_heads),
                part(model_.heads + model_.kv_heads, model_.kv_heads),
                {}};
    a.out = at::scaled_dot_product_attention(a.q, for_queries(a.k), for_queries(a.v), {}, 0.0,
                                             /*is_causal=*/true,
                                             static_cast<double>(where_.attention.score_scale()));
    return a;
  }

  // From the attention norm's output in hidden_ to the heads' output.
  void attend(const BlockWeights& block, Saved& saved, bool keep) {
    const at::Tensor qkv = forward(block.qkv, hidden_NC_);
    rotate(qkv, 1);
    saved.attention = attend(qkv, keep);
    saved.attention_NC =
        saved.attention.out.detach().transpose(1, 2).reshape({tokens_, model_.hidden});
  }

  // The gradient of the unrotated queries, keys and values, for the gradient of the output.
  at::Tensor backward(Attention& attention, const at::Tensor& dout_NC) {
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({attention.out}, {attention.q, attention.k, attention.v},
                              {heads_of(dout_NC, 0, model_.heads)});
    at::Tensor dqkv = operand(where_.attention.qkv_width());
    int64_t first = 0;
    for (const at::Tensor& gradient : gradients) {
      heads_of(dqkv, first, gradient.size(1)).copy_(gradient);
      first += gradient.size(1);
    }
    rotate(dqkv, -1);
    return dqkv;
  }

  at::Tensor forward_block(int64_t layer, const at::Tensor& x, bool keep) {
    const BlockWeights& block = where_.blocks[layer];
    Saved saved;
    std::tie(saved.attention_x_NC, saved.attention_rstd_N) = norm(x, block.attention_norm);
    attend(block, saved, keep);
    branch_NC_ = forward(block.o, saved.attention_NC);

    std::tie(saved.mlp_x_NC, saved.mlp_rstd_N) = norm(saved.attention_x_NC, block.mlp_norm);
    saved.gate_up_N2F = forward(block.gate_up, hidden_NC_);
    const at::Tensor inner = operand(model_.intermediate);
    launch(tensor::SwiGlu<T>{model_.intermediate, data<T>(saved.gate_up_N2F), data<T>(inner)},
           tokens_);
    branch_NC_ = forward(block.down, inner);
    at::Tensor out = saved.mlp_x_NC;
    if (keep) saved_[layer] = std::move(saved);
    return out;
  }

  // Fills saved_ again after let_go. Runs what the forward pass ran, so the bits are the same.
  void recompute(int64_t layer) {
    Saved& saved = saved_[layer];
    branch_NC_ = at::Tensor();
    if (recompute_ == Recompute::kBlock) {
      forward_block(layer, saved.attention_x_NC, true);
    } else {
      norm(saved.attention_x_NC, where_.blocks[layer].attention_norm);
      attend(where_.blocks[layer], saved, true);
    }
  }

  void let_go(Saved& saved) const {
    if (recompute_ == Recompute::kBlock) {
      const at::Tensor input = saved.attention_x_NC;
      saved = {};
      saved.attention_x_NC = input;
    } else if (recompute_ == Recompute::kAttention) {
      saved.attention = {};
      saved.attention_NC = at::Tensor();
    }
  }

  // From the embedding to the final norm's output in hidden_.
  void forward(bool keep) {
    at::Tensor x = residual();
    launch(tensor::Embed{model_.hidden, data<int32_t>(inputs_N_),
                         data<float>(master_) + where_.embedding, data<float>(x)},
           tokens_);
    branch_NC_ = at::Tensor();
    for (int64_t layer = 0; layer < model_.layers; ++layer) {
      x = forward_block(layer, x, keep);
      if (layer + 1 < model_.layers) let_go(saved_[layer]);
    }
    std::tie(final_x_NC_, final_rstd_N_) = norm(x, where_.final_norm);
    count_bytes();
  }

  // The losses; if wanted, also their gradients: for hidden_ in branch_, and for the head.
  at::Tensor head(bool gradients, float scale) {
    const at::Tensor weight = matrix(weights_, where_.head, model_.vocab, model_.hidden);
    at::Tensor losses = at::empty({tokens_}, fp32_);
    for (int64_t first = 0; first < tokens_; first += head_chunk_) {
      const int64_t count = std::min(head_chunk_, tokens_ - first);
      const at::Tensor hidden = hidden_NC_.narrow(0, first, count);
      const at::Tensor logits = at::mm(hidden, weight.t());
      launch(
          tensor::CrossEntropy<T>{model_.vocab, data<int32_t>(targets_N_) + first,
                                  weights_N_.defined() ? data<float>(weights_N_) + first : nullptr,
                                  gradients, scale, data<T>(logits), data<float>(losses) + first},
          count);
      if (!gradients) continue;
      at::Tensor branch = branch_NC_.narrow(0, first, count);
      at::mm_out(branch, logits, weight);
      add_product(matrix(gradients_, where_.head, model_.vocab, model_.hidden), logits, hidden);
    }
    return losses;
  }

  void backward_mlp(const BlockWeights& block, Saved& saved) {
    const at::Tensor dinner = backward_input(block.down, dx_operand_NC_);
    const at::Tensor inner = operand(model_.intermediate);
    launch(tensor::SwiGluBackward<T>{model_.intermediate, data<T>(saved.gate_up_N2F),
                                     data<T>(dinner), data<T>(inner)},
           tokens_);
    backward_weight(block.down, dx_operand_NC_, inner);
    branch_NC_ = backward_input(block.gate_up, saved.gate_up_N2F);
    backward_norm(saved.mlp_x_NC, saved.mlp_rstd_N, block.mlp_norm);
    backward_weight(block.gate_up, saved.gate_up_N2F, hidden_NC_);
  }

  void backward_attention(const BlockWeights& block, Saved& saved) {
    branch_NC_ = backward_input(block.o, dx_operand_NC_);
    backward_weight(block.o, dx_operand_NC_, saved.attention_NC);
    const at::Tensor dqkv = backward(saved.attention, branch_NC_);
    branch_NC_ = backward_input(block.qkv, dqkv);
    backward_norm(saved.attention_x_NC, saved.attention_rstd_N, block.attention_norm);
    backward_weight(block.qkv, dqkv, hidden_NC_);
  }

  // From the gradient of the final norm's output in branch_ to all gradients but the head's.
  void backward(tensor::Arena& gradients, const LayerReady& layer_ready) {
    dx_NC_ = at::zeros({tokens_, model_.hidden}, fp32_);
    dx_operand_NC_ = kIsFloat ? dx_NC_ : operand(model_.hidden);
    backward_norm(final_x_NC_, final_rstd_N_, where_.final_norm);
    for (int64_t layer = model_.layers - 1; layer >= 0; --layer) {
      if (recompute_ != Recompute::kNone && layer + 1 < model_.layers) recompute(layer);
      backward_mlp(where_.blocks[layer], saved_[layer]);
      backward_attention(where_.blocks[layer], saved_[layer]);
      saved_[layer] = {};
      if (!layer_ready) continue;
      layer_ready(static_cast<int>(layer));
      use(gradients);
    }
    matrix(gradients_, where_.embedding, model_.vocab, model_.hidden)
        .add_(at::embedding_dense_backward(dx_NC_, inputs_N_, model_.vocab, -1, false));
    if (layer_ready) layer_ready(-1);
  }

  // What is held at the end of the forward pass, where it is most.
  void count_bytes() {
    size_t sum = kIsFloat ? 0 : weights_.nbytes();
    for (const at::Tensor& tensor : {cosine_, sine_, inputs_N_, targets_N_, hidden_NC_, branch_NC_,
                                     final_x_NC_, final_rstd_N_}) {
      sum += tensor.nbytes();
    }
    for (const Saved& saved : saved_) {
      for (const at::Tensor& tensor :
           {saved.attention_x_NC, saved.attention_rstd_N, saved.attention_NC, saved.attention.q,
            saved.attention.k, saved.attention.v, saved.mlp_x_NC, saved.mlp_rstd_N,
            saved.gate_up_N2F}) {
        if (tensor.defined()) sum += tensor.nbytes();
      }
    }
    most_bytes_ = std::max(most_bytes_, sum + batch().bytes());
  }

  const tensor::DevicePlace place_;
  const at::TensorOptions fp32_, operand_;
  const config::ModelSection model_;
  const LlamaWeights where_;
  const Recompute recompute_;
  tensor::Arena& params_;
  ThreadPool& threads_;
  const int64_t head_chunk_;

  at::Tensor master_, weights_;  // the arena in fp32 and as operands
  at::Tensor gradients_;         // the arena of the present call
  at::Tensor cosine_, sine_;
  at::Tensor inputs_N_, targets_N_, weights_N_;
  std::vector<Saved> saved_;
  at::Tensor final_x_NC_, final_rstd_N_;
  at::Tensor hidden_NC_;      // output of a norm
  at::Tensor branch_NC_;      // what a branch adds to the residual stream; gradient of hidden_
  at::Tensor dx_NC_;          // gradient of the residual stream
  at::Tensor dx_operand_NC_;  // rounded, where T is not float
  int64_t tokens_ = 0;        // of the present batch
  size_t most_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_torch_llama(const ModelParts& parts, int64_t head_chunk) {
  if (parts.precision == Precision::kBf16) {
    return std::make_unique<TorchEngine<Bf16>>(parts, head_chunk);
  }
  return std::make_unique<TorchEngine<float>>(parts, head_chunk);
}

}  // namespace thinwire::model
