#include "thinwire/model/llama.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/method/llama.h"
#include "thinwire/model/linear.h"
#include "thinwire/tensor/kernels/attention.h"

namespace thinwire::model {
namespace {

// Shape suffixes as in ops.h.
class LlamaGraph final : public Graph {
 public:
  LlamaGraph(Ops& ops, const method::ModelSpec& model, const tensor::Layout& layout,
             Purpose purpose)
      : ops_(ops),
        recompute_(parse_recompute(model.recompute)),
        options_(model.options<method::LlamaOptions>()),
        shape_{model.heads, options_.kv_heads, model.head_size()},
        embedding_(offset(layout, "model.embed_tokens")),
        final_norm_(offset(layout, "model.norm")),
        head_(model.tied ? embedding_ : offset(layout, "lm_head")) {
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      weights_.push_back(weights_of(layout, fmt::format("model.layers.{}.", layer)));
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
      if (recompute_ != Recompute::kNone && layer + 1 < layers()) recompute(layer);
      backward_mlp(layer);
      backward_attention(layer);
      drop(saved(layer));
      end_group(static_cast<int>(layer));
    }
    ops_.embed_backward(dx_NC_, embedding_);
    end_group(kEmbeddingGroup);
  }

  Head head() const override { return {head_, hidden_NC_, branch_NC_}; }

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
  };
  // What the backward pass of one block needs. It recomputes everything else.
  struct Saved {
    NormSlots attention_norm;
    AttentionSlots attention;
    NormSlots mlp_norm;
    Slot gate_up_N2F;
  };

  static int64_t offset(const tensor::Layout& layout, const std::string& module) {
    return layout.offset(layout.find(module + ".weight"));
  }

  static Weights weights_of(const tensor::Layout& layout, const std::string& block) {
    const auto linear = [&](const std::vector<std::string>& modules) {
      std::vector<std::string> names;
      for (const std::string& module : modules) names.push_back(block + module + ".weight");
      return Linear(layout, names);
    };
    return {offset(layout, block + "input_layernorm"),
            offset(layout, block + "post_attention_layernorm"),
            linear({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
            linear({"self_attn.o_proj"}),
            linear({"mlp.gate_proj", "mlp.up_proj"}),
            linear({"mlp.down_proj"})};
  }

  int64_t layers() const { return static_cast<int64_t>(weights_.size()); }
  // Without a backward pass all blocks use the first one's slots.
  const Saved& saved(int64_t layer) const { return saved_[keep_ ? static_cast<size_t>(layer) : 0]; }

  void plan(const method::ModelSpec& model, Purpose purpose) {
    const int64_t c = model.hidden, f = options_.intermediate;
    ops_.plan_norms(options_.norm_eps);
    ops_.plan_attention(layers(), shape_, options_.rope_theta);
    const bool trains = purpose == Purpose::kTraining;
    const auto norm = [&] { return NormSlots{ops_.stream(c), ops_.stream(1)}; };
    for (int64_t layer = 0; layer < (trains ? layers() : 1); ++layer) {
      Saved block = layer == 0 ? Saved{} : saved_[0];
      block.attention_norm = norm();
      if (layer == 0 || recompute_ == Recompute::kNone) {
        block.attention = {ops_.operand(shape_.qkv_width()), ops_.operand(c),
                           ops_.stream(model.heads)};
      }
      if (layer == 0 || recompute_ != Recompute::kBlock) {
        block.mlp_norm = trains ? norm() : block.attention_norm;
        block.gate_up_N2F = ops_.operand(2 * f);
      }
      saved_.push_back(block);
    }
    final_ = trains ? norm() : saved_[0].attention_norm;
    hidden_NC_ = ops_.operand(c);
    branch_NC_ = ops_.operand(c);
    inner_NF_ = ops_.operand(f);
    if (!trains) return;
    dinner_NF_ = ops_.operand(f);
    dx_NC_ = ops_.stream(c);
    dx_rounded_NC_ = ops_.rounded(dx_NC_);
  }

  void forward_block(int64_t layer, Slot x, Slot branch) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    ops_.add_norm(x, branch, block.attention_norm, saved(layer).attention_norm, hidden_NC_);
    attend(layer);
    forward_gate_up(layer);
    ops_.swiglu(saved(layer).gate_up_N2F, inner_NF_);
    ops_.linear(block.down, inner_NF_, branch_NC_);
    ops_.drop({inner_NF_});
  }

  // From the attention norm's output to the heads' output.
  void attend(int64_t layer) {
    const AttentionSlots& slots = saved(layer).attention;
    ops_.linear(weights_[static_cast<size_t>(layer)].qkv, hidden_NC_, slots.qkv_NW);
    ops_.attention(layer, shape_, slots);
  }

  // From the heads' output to the gates and ups of the MLP.
  void forward_gate_up(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    ops_.linear(block.o, slots.attention.out_NC, branch_NC_);
    ops_.add_norm(slots.attention_norm.x_NC, branch_NC_, block.mlp_norm, slots.mlp_norm,
                  hidden_NC_);
    ops_.linear(block.gate_up, hidden_NC_, slots.gate_up_N2F);
  }

  // Restores the shared slots to what this block's forward pass left there.
  void recompute(int64_t layer) {
    const NormSlots& norm = saved(layer).attention_norm;
    ops_.add_norm(norm.x_NC, kNoSlot, weights_[static_cast<size_t>(layer)].attention_norm, norm,
                  hidden_NC_);
    attend(layer);
    if (recompute_ == Recompute::kBlock) forward_gate_up(layer);
  }

  void backward_mlp(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    ops_.linear_backward_input(block.down, dx_rounded_NC_, dinner_NF_);
    ops_.swiglu_backward(slots.gate_up_N2F, dinner_NF_, inner_NF_);
    ops_.linear_backward_weight(block.down, dx_rounded_NC_, inner_NF_);
    ops_.drop({dinner_NF_, inner_NF_});
    ops_.linear_backward_input(block.gate_up, slots.gate_up_N2F, branch_NC_);
    ops_.norm_backward(slots.mlp_norm, block.mlp_norm, branch_NC_, dx_NC_, dx_rounded_NC_,
                       hidden_NC_);
    ops_.linear_backward_weight(block.gate_up, slots.gate_up_N2F, hidden_NC_);
  }

  void backward_attention(int64_t layer) {
    const Weights& block = weights_[static_cast<size_t>(layer)];
    const Saved& slots = saved(layer);
    ops_.linear_backward_input(block.o, dx_rounded_NC_, branch_NC_);
    ops_.linear_backward_weight(block.o, dx_rounded_NC_, slots.attention.out_NC);
    ops_.attention_backward(shape_, slots.attention, branch_NC_);
    ops_.linear_backward_input(block.qkv, slots.attention.qkv_NW, branch_NC_);
    ops_.norm_backward(slots.attention_norm, block.attention_norm, branch_NC_, dx_NC_,
                       dx_rounded_NC_, hidden_NC_);
    ops_.linear_backward_weight(block.qkv, slots.attention.qkv_NW, hidden_NC_);
  }

  void drop(const Saved& slots) {
    ops_.drop({slots.attention_norm.x_NC, slots.attention_norm.rstd_N, slots.attention.qkv_NW,
               slots.attention.out_NC, slots.mlp_norm.x_NC, slots.mlp_norm.rstd_N,
               slots.gate_up_N2F});
  }

  Ops& ops_;
  const Recompute recompute_;
  const method::LlamaOptions options_;
  const tensor::AttentionShape shape_;
  const int64_t embedding_, final_norm_;
  const int64_t head_;            // the embedding when tied
  std::vector<Weights> weights_;  // for each block
  std::vector<Saved> saved_;      // likewise; only one when decoding
  bool keep_ = false;
  NormSlots final_{};
  Slot hidden_NC_ = kNoSlot;      // output of a norm
  Slot branch_NC_ = kNoSlot;      // what a branch adds to the residual stream; gradients of hidden_
  Slot inner_NF_ = kNoSlot;       // the MLP's hidden layer
  Slot dinner_NF_ = kNoSlot;      // its gradient
  Slot dx_NC_ = kNoSlot;          // gradient of the residual stream
  Slot dx_rounded_NC_ = kNoSlot;  // as an operand
};

}  // namespace

std::unique_ptr<Graph> make_llama(Ops& ops, const method::ModelSpec& model,
                                  const tensor::Layout& layout, Purpose purpose) {
  return std::make_unique<LlamaGraph>(ops, model, layout, purpose);
}

}  // namespace thinwire::model
