#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/kernels/attention.h"

namespace thinwire::model {
namespace {

// Shape suffixes as in ops.h.
class LlamaGraph final : public Graph {
 public:
  LlamaGraph(Ops& ops, const method::ModelSpec& model, const tensor::Layout& layout,
             Purpose purpose)
      : ops_(ops),
        recompute_(model.recompute),
        rounds_inputs_(recompute_ == config::Recompute::kBlock &&
                       model.block_inputs == Precision::kBf16 && purpose == Purpose::kTraining),
        options_(model.options<method::LlamaOptions>()),
        shape_(shape_of(model)),
        after_(options_.norm_place == method::NormPlace::kAfter),
        embedding_(offset(layout, "model.embed_tokens")),
        final_norm_(offset(layout, "model.norm")),
        head_(model.tied ? embedding_ : offset(layout, "lm_head")),
        vocabulary_(model.vocab) {
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      weights_.push_back(
          weights_of(layout, options_, shape_, fmt::format("model.layers.{}.", layer)));
    }
    plan(model, purpose);
  }

  void forward(bool keep) override {
    keep_ = keep;
    Slot x = saved(0).attention_norm.x_NC, branch = kNoSlot;
    ops_.embed(embedding_, x);
    for (int64_t layer = 0; layer < layers(); ++layer) {
      forward_block(layer, x, branch);
      x = saved(layer).mlp_norm.x_NC;
      branch = branch_NC_;
    }
    ops_.add_norm(x, branch, final_norm_, final_, hidden_NC_);
  }

  void backward(const EndGroup& end_group) override {
    ops_.clear(dx_NC_);
    ops_.norm_backward(final_, final_norm_, branch_NC_, dx_NC_, dx_rounded_NC_, hidden_NC_);
    end_group(static_cast<int>(layers()));
    for (int64_t layer = layers() - 1; layer >= 0; --layer) {
      // The shared slots still hold the last block's.
      if (recompute_ != config::Recompute::kNone && !is_last(layer)) recompute(layer);
      backward_mlp(layer);
      backward_attention(layer);
      drop(saved(layer));
      end_group(static_cast<int>(layer));
    }
    ops_.embed_backward(dx_NC_, embedding_);
    end_group(kEmbeddingGroup);
  }

  Head head() const override {
    return {head_, vocabulary_, hidden_NC_, branch_NC_, Head::kNoBias, head_ == embedding_};
  }

  std::vector<const Linear*> products() const override {
    std::vector<const Linear*> all;
    for (const Weights& block : weights_) {
      for (const Linear* linear : {&block.qkv, &block.o, &block.gate_up, &block.down}) {
        all.push_back(linear);
      }
    }
    return all;
  }

 private:
  struct Weights {
    int64_t attention_norm, mlp_norm;  // offsets of vectors
    Linear qkv, o, gate_up, down;
    Bias qkv_bias, o_bias, gate_up_bias, down_bias;
    std::vector<NormColumns> qk_norms;
  };
  // What the backward pass of one block needs. It recomputes everything else.
  struct Saved {
    NormSlots attention_norm;  // without rstd where norms come after the branches
    AttentionSlots attention;
    PreNormSlots raw_qk{kNoSlot, kNoSlot};
    PreNormSlots raw_attention{kNoSlot, kNoSlot};  // the branches before their norms
    NormSlots mlp_norm;
    Slot gate_up_N2F;
    PreNormSlots raw_mlp{kNoSlot, kNoSlot};
  };

  static int64_t offset(const tensor::Layout& layout, const std::string& module) {
    return layout.offset(layout.find(module + ".weight"));
  }

  static tensor::AttentionShape shape_of(const method::ModelSpec& model) {
    const method::LlamaHeads heads(model);
    return {heads.heads, heads.kv_heads, heads.size};
  }
  // The shape of one block.
  tensor::AttentionShape shape(int64_t layer) const {
    tensor::AttentionShape shape = shape_;
    shape.window = options_.window_of(layer);
    return shape;
  }

  static Weights weights_of(const tensor::Layout& layout, const method::LlamaOptions& options,
                            const tensor::AttentionShape& shape, const std::string& block) {
    using Modules = std::vector<std::string>;
    const auto names = [&](Modules modules, const char* kind) {
      for (std::string& module : modules) module.insert(0, block).append(kind);
      return modules;
    };
    const auto linear = [&](const Modules& modules) {
      return Linear(layout, names(modules, ".weight"));
    };
    const auto bias = [&](bool has, const Modules& modules) {
      return has ? Bias(layout, names(modules, ".bias")) : Bias();
    };
    const bool after = options.norm_place == method::NormPlace::kAfter;
    const Modules qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    const Modules o = {"self_attn.o_proj"}, down = {"mlp.down_proj"};
    const Modules gate_up = {"mlp.gate_proj", "mlp.up_proj"};
    return {
        offset(layout, block + (after ? "post_attention_layernorm" : "input_layernorm")),
        offset(layout, block + (after ? "post_feedforward_layernorm" : "post_attention_layernorm")),
        linear(qkv),
        linear(o),
        linear(gate_up),
        linear(down),
        bias(options.qkv_bias, qkv),
        bias(options.out_bias, o),
        bias(options.mlp_bias, gate_up),
        bias(options.mlp_bias, down),
        qk_norms(layout, options.qk_norm, shape, block + "self_attn.")};
  }

  // Queries come first in a token's row, then keys.
  static std::vector<NormColumns> qk_norms(const tensor::Layout& layout, method::QkNorm kind,
                                           const tensor::AttentionShape& shape,
                                           const std::string& prefix) {
    if (kind == method::QkNorm::kNone) return {};
    const int64_t q = offset(layout, prefix + "q_norm"), k = offset(layout, prefix + "k_norm");
    const int64_t d = shape.head_size;
    if (kind == method::QkNorm::kAll) {
      return {{q, 0, 1, shape.width(), 0}, {k, shape.width(), 1, shape.kv_heads * d, 1}};
    }
    return {{q, 0, shape.heads, d, 0}, {k, shape.width(), shape.kv_heads, d, shape.heads}};
  }

  int64_t width() const { return weights_[0].gate_up.inputs(); }
  int64_t layers() const { return static_cast<int64_t>(weights_.size()); }
  bool is_last(int64_t layer) const { return layer + 1 == layers(); }
  // Without a backward pass all blocks use the first one's slots.
  const Saved& saved(int64_t layer) const { return saved_[keep_ ? static_cast<size_t>(layer) : 0]; }

  void plan(const method::ModelSpec& model, Purpose purpose) {
    const int64_t c = model.hidden, f = options_.intermediate;
    ops_.plan_norms(options_.norm_eps, widest_norm(model));
    ops_.plan_attention(layers(), shape_, options_.rope);
    const bool trains = purpose == Purpose::kTraining;
    const auto norm = [&] { return NormSlots{ops_.stream(c), ops_.stream(1)}; };
    const auto entry = [&] { return after_ ? NormSlots{ops_.stream(c), kNoSlot} : norm(); };
    for (int64_t layer = 0; layer < (trains ? layers() : 1); ++layer) {
      Saved block = layer == 0 ? Saved{} : saved_[0];
      if (layer == 0 || !rounds_inputs_) block.attention_norm = entry();
      if (rounds_inputs_) inputs_NC_.push_back(is_last(layer) ? kNoSlot : ops_.operand(c));
      if (layer == 0 || recompute_ == config::Recompute::kNone) plan_attention_slots(block);
      if (layer == 0 || recompute_ != config::Recompute::kBlock) {
        block.mlp_norm = trains ? entry() : block.attention_norm;
        block.gate_up_N2F = ops_.operand(2 * f);
        if (after_) {
          block.raw_attention = {ops_.operand(c), ops_.stream(1)};
          block.raw_mlp = {ops_.operand(c), ops_.stream(1)};
        }
      }
      saved_.push_back(block);
    }
    final_ = trains || after_ ? norm() : saved_[0].attention_norm;
    hidden_NC_ = ops_.operand(c);
    branch_NC_ = ops_.operand(c);
    inner_NF_ = ops_.operand(f);
    if (trains) plan_gradients(c);
  }

  int64_t widest_norm(const method::ModelSpec& model) const {
    int64_t widest = model.hidden;
    for (const NormColumns& norm : weights_[0].qk_norms) widest = std::max(widest, norm.width);
    return widest;
  }

  void plan_attention_slots(Saved& block) {
    block.attention = {ops_.operand(shape_.qkv_width()), ops_.operand(shape_.width()),
                       ops_.stream(shape_.heads)};
    if (weights_[0].qk_norms.empty()) return;
    const NormColumns& keys = weights_[0].qk_norms.back();
    block.raw_qk = {ops_.operand(keys.column + keys.groups * keys.width),
                    ops_.stream(keys.statistic + keys.groups)};
  }

  void plan_gradients(int64_t c) {
    dx_NC_ = ops_.stream(c);
    dx_rounded_NC_ = ops_.rounded(dx_NC_);
    dattended_NC_ = shape_.width() == c ? branch_NC_ : ops_.operand(shape_.width());
    dbranch_NC_ = after_ ? ops_.operand(c) : dx_rounded_NC_;
  }

  // Adds the last branch to the residual stream; hidden_ becomes what the next branch reads.
  void enter(Slot x, Slot branch, int64_t norm, const NormSlots& saved) {
    if (after_) return ops_.add_branch(x, branch, saved.x_NC, hidden_NC_);
    ops_.add_norm(x, branch, norm, saved, hidden_NC_);
  }
  // The gradient of what a branch read is in branch_; computes hidden_ again.
  void enter_backward(const NormSlots& saved, int64_t norm) {
    if (after_) {
      return ops_.add_branch_backward(saved.x_NC, branch_NC_, dx_NC_, dx_rounded_NC_, hidden_NC_);
    }
    ops_.norm_backward(saved, norm, branch_NC_, dx_NC_, dx_rounded_NC_, hidden_NC_);
  }
  // From a branch's last product to what it adds.
  void leave(int64_t norm, const PreNormSlots& raw) {
    if (after_) ops_.norm_columns({norm, 0, 1, width()}, branch_NC_, raw);
  }
  // dbranch_ becomes the gradient of the branch's last product.
  void leave_backward(int64_t norm, const PreNormSlots& raw) {
    if (!after_) return;
    ops_.norm_columns_backward({norm, 0, 1, width()}, raw, dx_rounded_NC_, dbranch_NC_);
  }

  void forward_block(int64_t layer, Slot x, Slot branch) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    enter(x, branch, block.attention_norm, saved(layer).attention_norm);
    if (keep_ && rounds_inputs_ && !is_last(layer)) {
      ops_.keep(saved(layer).attention_norm.x_NC, inputs_NC_[static_cast<size_t>(layer)]);
    }
    attend(layer);
    forward_gate_up(layer);
    forward_down(layer);
    ops_.drop({inner_NF_});
  }

  // From what attention reads to the heads' output.
  void attend(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    ops_.linear(block.qkv, hidden_NC_, slots.attention.qkv_NW);
    ops_.add_bias(block.qkv_bias, slots.attention.qkv_NW);
    for (const NormColumns& norm : block.qk_norms) {
      ops_.norm_columns(norm, slots.attention.qkv_NW, slots.raw_qk);
    }
    ops_.attention(layer, shape(layer), slots.attention);
  }

  // From the heads' output to the gates and ups of the MLP.
  void forward_gate_up(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    ops_.linear(block.o, slots.attention.out_NC, branch_NC_);
    ops_.add_bias(block.o_bias, branch_NC_);
    leave(block.attention_norm, slots.raw_attention);
    enter(slots.attention_norm.x_NC, branch_NC_, block.mlp_norm, slots.mlp_norm);
    ops_.linear(block.gate_up, hidden_NC_, slots.gate_up_N2F);
    ops_.add_bias(block.gate_up_bias, slots.gate_up_N2F);
  }

  // From there to what the MLP adds.
  void forward_down(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    ops_.swiglu(saved(layer).gate_up_N2F, inner_NF_);
    ops_.linear(block.down, inner_NF_, branch_NC_);
    ops_.add_bias(block.down_bias, branch_NC_);
    leave(block.mlp_norm, saved(layer).raw_mlp);
  }

  // Restores the shared slots to what this block's forward pass left there.
  void recompute(int64_t layer) {
    const NormSlots& norm = saved(layer).attention_norm;
    if (rounds_inputs_) {
      const Slot input = inputs_NC_[static_cast<size_t>(layer)];
      ops_.restore(input, norm.x_NC);
      ops_.drop({input});
    }
    enter(norm.x_NC, kNoSlot, weights_[static_cast<size_t>(layer)].attention_norm, norm);
    attend(layer);
    if (recompute_ != config::Recompute::kBlock) return;
    forward_gate_up(layer);
    if (after_) forward_down(layer);  // its norm needs the branch
  }

  void backward_mlp(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    leave_backward(block.mlp_norm, slots.raw_mlp);
    ops_.linear_backward_input(block.down, dbranch_NC_, inner_NF_);
    ops_.swiglu_backward(slots.gate_up_N2F, inner_NF_, inner_NF_);
    ops_.linear_backward_weight(block.down, dbranch_NC_, inner_NF_);
    ops_.bias_backward(block.down_bias, dbranch_NC_);
    ops_.drop({inner_NF_});
    ops_.linear_backward_input(block.gate_up, slots.gate_up_N2F, branch_NC_);
    enter_backward(slots.mlp_norm, block.mlp_norm);
    ops_.linear_backward_weight(block.gate_up, slots.gate_up_N2F, hidden_NC_);
    ops_.bias_backward(block.gate_up_bias, slots.gate_up_N2F);
  }

  void backward_attention(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    leave_backward(block.attention_norm, slots.raw_attention);
    ops_.linear_backward_input(block.o, dbranch_NC_, dattended_NC_);
    ops_.linear_backward_weight(block.o, dbranch_NC_, slots.attention.out_NC);
    ops_.bias_backward(block.o_bias, dbranch_NC_);
    ops_.attention_backward(shape(layer), slots.attention, dattended_NC_);
    for (const NormColumns& norm : block.qk_norms) {
      ops_.norm_columns_backward(norm, slots.raw_qk, slots.attention.qkv_NW,
                                 slots.attention.qkv_NW);
    }
    ops_.linear_backward_input(block.qkv, slots.attention.qkv_NW, branch_NC_);
    enter_backward(slots.attention_norm, block.attention_norm);
    ops_.linear_backward_weight(block.qkv, slots.attention.qkv_NW, hidden_NC_);
    ops_.bias_backward(block.qkv_bias, slots.attention.qkv_NW);
  }

  void drop(const Saved& slots) {
    for (const Slot slot :
         {slots.attention_norm.x_NC, slots.attention_norm.rstd_N, slots.attention.qkv_NW,
          slots.attention.out_NC, slots.raw_qk.x_NW, slots.raw_qk.rstd_NG, slots.raw_attention.x_NW,
          slots.raw_attention.rstd_NG, slots.mlp_norm.x_NC, slots.mlp_norm.rstd_N,
          slots.gate_up_N2F, slots.raw_mlp.x_NW, slots.raw_mlp.rstd_NG}) {
      if (slot != kNoSlot) ops_.drop({slot});
    }
  }

  Ops& ops_;
  const config::Recompute recompute_;
  const bool rounds_inputs_;  // those of blocks are kept as operands, and one is a stream at a time
  const method::LlamaOptions options_;
  const tensor::AttentionShape shape_;  // but for the window
  const bool after_;                    // norms come after the branches
  const int64_t embedding_, final_norm_;
  const int64_t head_;  // the embedding when tied
  const int64_t vocabulary_;
  std::vector<Weights> weights_;  // for each block
  std::vector<Saved> saved_;      // likewise; only one when decoding
  std::vector<Slot> inputs_NC_;   // likewise; only if they are rounded
  bool keep_ = false;
  NormSlots final_{};
  Slot hidden_NC_ = kNoSlot;      // output of a norm
  Slot branch_NC_ = kNoSlot;      // what a branch adds to the residual stream; gradients of hidden_
  Slot inner_NF_ = kNoSlot;       // the MLP's hidden layer; its gradient
  Slot dx_NC_ = kNoSlot;          // gradient of the residual stream
  Slot dx_rounded_NC_ = kNoSlot;  // as an operand
  Slot dattended_NC_ = kNoSlot;   // gradient of the heads' output
  Slot dbranch_NC_ = kNoSlot;     // gradient of a branch's last product
};

std::unique_ptr<Graph> make_llama(Ops& ops, const method::ModelSpec& model,
                                  const tensor::Layout& layout, Purpose purpose) {
  return std::make_unique<LlamaGraph>(ops, model, layout, purpose);
}

}  // namespace

// The Llama language model (Touvron et al. 2023, arXiv 2302.13971):
//
//     x  = embed[token]
//     x += Wo attention(rope(Wq y), rope(Wk y), Wv y),  y = rmsnorm(x)     for every block
//     x += Wdown (silu(Wgate y) * (Wup y)),             y = rmsnorm(x)
//     logits = Whead rmsnorm(x)
//
// and with the options of its table (llama_spec.h): biases on the products, norms
// of queries and keys before rope, attention within a window, and x += rmsnorm(branch(x)) in place
// of branch(y).

// model.recompute and model.block_inputs determine which slots there are.
const ModelEntry kLlama = {"llama", make_llama, true};

}  // namespace thinwire::model
