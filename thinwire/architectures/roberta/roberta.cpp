#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/kernels/attention.h"

namespace thinwire::model {
namespace {

// Shape suffixes as in ops.h. The residual stream is the result of the last norm, the branch's
// included: that of the embedding (entry 0), then of each block's MLP (entry 1, ...), which is what
// the next block, or the head, reads.
class RobertaGraph final : public Graph {
 public:
  RobertaGraph(Ops& ops, const method::ModelSpec& model, const tensor::Layout& layout)
      : ops_(ops),
        recompute_(model.recompute),
        rounds_inputs_(recompute_ == config::Recompute::kBlock &&
                       model.block_inputs == Precision::kBf16),
        layers_(model.layers),
        shape_{model.heads, model.heads, model.hidden / model.heads, 0, false},
        words_(offset(layout, "roberta.embeddings.word_embeddings.weight")),
        tables_(tables_of(layout)),
        entry_norms_{norm_of(layout, "roberta.embeddings.LayerNorm")},
        dense_(layout, {"classifier.dense.weight"}),
        dense_bias_(layout, {"classifier.dense.bias"}),
        head_{offset(layout, "classifier.out_proj.weight"),
              model.options<method::RobertaOptions>().labels, kNoSlot, kNoSlot,
              offset(layout, "classifier.out_proj.bias")} {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const std::string block = fmt::format("roberta.encoder.layer.{}.", layer);
      weights_.push_back(weights_of(layout, block));
      entry_norms_.push_back(norm_of(layout, block + "output.LayerNorm"));
    }
    plan(model);
  }

  void forward(bool keep) override {
    keep_ = keep;
    ops_.embed(words_, x_NC_);
    ops_.add_positions(tables_, x_NC_);
    enter(0, kNoSlot);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      attend(layer);
      forward_inner(layer);
      const Weights& block = weights(layer);
      ops_.gelu(saved(layer).inner_NF, inner_NF_);
      ops_.linear(block.down, inner_NF_, branch_NC_);
      ops_.add_bias(block.down_bias, branch_NC_);
      enter(layer + 1, branch_NC_);
      ops_.drop({inner_NF_});
    }
    ops_.select_first(x_NC_, first_DC_);
    ops_.linear(dense_, first_DC_, pooled_DC_);
    ops_.add_bias(dense_bias_, pooled_DC_);
    ops_.tanh(pooled_DC_);
  }

  void backward(const EndGroup& end_group) override {
    ops_.tanh_backward(pooled_DC_, dpooled_DC_);
    ops_.linear_backward_input(dense_, dpooled_DC_, pooled_DC_);
    ops_.linear_backward_weight(dense_, dpooled_DC_, first_DC_);
    ops_.bias_backward(dense_bias_, dpooled_DC_);
    ops_.select_first_backward(pooled_DC_, branch_NC_);
    end_group(static_cast<int>(layers_));
    ops_.clear(dx_NC_);
    enter_backward(layers_);
    for (int64_t layer = layers_ - 1; layer >= 0; --layer) {
      if (rounds_inputs_) restore(layer);
      // The shared slots still hold the last block's.
      if (recompute_ != config::Recompute::kNone && !is_last(layer)) recompute(layer);
      backward_mlp(layer);
      backward_attention(layer);
      drop(saved(layer));
      end_group(static_cast<int>(layer));
    }
    ops_.positions_backward(dx_NC_, tables_);
    ops_.embed_backward(dx_NC_, words_);
    end_group(kEmbeddingGroup);
  }

  Head head() const override {
    Head head = head_;
    head.x_NC = pooled_DC_;
    head.dx_NC = dpooled_DC_;
    return head;
  }

  std::vector<const Linear*> products() const override {
    std::vector<const Linear*> all = {&dense_};
    for (const Weights& block : weights_) {
      for (const Linear* linear : {&block.qkv, &block.out, &block.up, &block.down}) {
        all.push_back(linear);
      }
    }
    return all;
  }

 private:
  struct Weights {
    Linear qkv, out, up, down;
    Bias qkv_bias, out_bias, up_bias, down_bias;
    LayerNorm norm;  // after attention
  };
  // What the backward pass of one block needs besides its input.
  struct Saved {
    AttentionSlots attention;
    LayerNormSlots norm;
    Slot inner_NF;  // before GELU
  };

  static int64_t offset(const tensor::Layout& layout, const std::string& name) {
    return layout.offset(layout.find(name));
  }
  static LayerNorm norm_of(const tensor::Layout& layout, const std::string& module) {
    return {offset(layout, module + ".weight"), offset(layout, module + ".bias")};
  }
  static PositionTables tables_of(const tensor::Layout& layout) {
    const std::string positions = "roberta.embeddings.position_embeddings.weight";
    const std::string types = "roberta.embeddings.token_type_embeddings.weight";
    const auto rows = [&](const std::string& name) {
      return layout.specs()[layout.find(name)].shape[0];
    };
    return {offset(layout, positions), rows(positions), method::kRobertaFirstPosition,
            offset(layout, types), rows(types)};
  }
  static Weights weights_of(const tensor::Layout& layout, const std::string& block) {
    const auto names = [&](std::vector<std::string> modules, const char* kind) {
      for (std::string& module : modules) module.insert(0, block).append(kind);
      return modules;
    };
    const auto linear = [&](const std::vector<std::string>& modules) {
      return Linear(layout, names(modules, ".weight"));
    };
    const auto bias = [&](const std::vector<std::string>& modules) {
      return Bias(layout, names(modules, ".bias"));
    };
    const std::vector<std::string> qkv = {"attention.self.query", "attention.self.key",
                                          "attention.self.value"};
    const std::vector<std::string> out = {"attention.output.dense"};
    const std::vector<std::string> up = {"intermediate.dense"}, down = {"output.dense"};
    return {linear(qkv),  linear(out), linear(up),
            linear(down), bias(qkv),   bias(out),
            bias(up),     bias(down),  norm_of(layout, block + "attention.output.LayerNorm")};
  }

  // All frequencies are 0: nothing is rotated.
  static RopeSpec no_rotation() {
    RopeSpec rope;
    rope.scaling = RopeScaling::kLinear;
    rope.factor = std::numeric_limits<double>::infinity();
    return rope;
  }

  const Weights& weights(int64_t layer) const { return weights_[static_cast<size_t>(layer)]; }
  bool is_last(int64_t layer) const { return layer + 1 == layers_; }
  // Without a backward pass all blocks use the first one's slots.
  const Saved& saved(int64_t layer) const { return saved_[keep_ ? static_cast<size_t>(layer) : 0]; }
  const LayerNormSlots& entry(int64_t number) const {
    return entries_[keep_ ? static_cast<size_t>(number) : 0];
  }

  void plan(const method::ModelSpec& model) {
    const int64_t c = model.hidden;
    const int64_t f = model.options<method::RobertaOptions>().intermediate;
    ops_.plan_norms(model.options<method::RobertaOptions>().norm_eps, 2 * c);
    ops_.plan_attention(layers_, shape_, no_rotation());
    const auto norm = [&] { return LayerNormSlots{ops_.stream(c), ops_.stream(1)}; };
    for (int64_t number = 0; number <= layers_; ++number) {
      const bool shared = rounds_inputs_ && number > 0;
      entries_.push_back({shared ? entries_[0].normed_NC : ops_.stream(c), ops_.stream(1)});
    }
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (rounds_inputs_) rounded_NC_.push_back(ops_.operand(c));
      Saved block = layer == 0 ? Saved{} : saved_[0];
      if (layer == 0 || recompute_ == config::Recompute::kNone) {
        block.attention = {ops_.operand(shape_.qkv_width()), ops_.operand(c),
                           ops_.stream(model.heads)};
      }
      if (layer == 0 || recompute_ != config::Recompute::kBlock) {
        block.norm = norm();
        block.inner_NF = ops_.operand(f);
      }
      saved_.push_back(block);
    }
    x_NC_ = ops_.stream(c);
    dx_NC_ = ops_.stream(c);
    dx_rounded_NC_ = ops_.rounded(dx_NC_);
    hidden_NC_ = ops_.operand(c);
    branch_NC_ = ops_.operand(c);
    inner_NF_ = ops_.operand(f);
    first_DC_ = ops_.operand(c);
    pooled_DC_ = ops_.operand(c);
    dpooled_DC_ = ops_.operand(c);
  }

  // The residual stream plus a branch, normed; it also becomes hidden_.
  void enter(int64_t number, Slot branch) {
    ops_.layer_norm(entry_norms_[static_cast<size_t>(number)], x_NC_, branch, entry(number), x_NC_,
                    hidden_NC_);
    if (keep_ && rounds_inputs_ && number < layers_) {
      ops_.keep(entry(number).normed_NC, rounded_NC_[static_cast<size_t>(number)]);
    }
  }
  // The gradient of what was read of it is in branch_, that of the residual stream in dx_; computes
  // hidden_ again.
  void enter_backward(int64_t number) {
    ops_.layer_norm_backward(entry_norms_[static_cast<size_t>(number)], entry(number), branch_NC_,
                             dx_NC_, dx_rounded_NC_, hidden_NC_);
  }

  // From a block's input to the norm after attention.
  void attend(int64_t layer) {
    const Weights& block = weights(layer);
    const AttentionSlots& slots = saved(layer).attention;
    ops_.linear(block.qkv, hidden_NC_, slots.qkv_NW);
    ops_.add_bias(block.qkv_bias, slots.qkv_NW);
    ops_.attention(layer, shape_, slots);
  }

  // From the heads' output to the MLP's inner layer, before GELU.
  void forward_inner(int64_t layer) {
    const Weights& block = weights(layer);
    const Saved& slots = saved(layer);
    ops_.linear(block.out, slots.attention.out_NC, branch_NC_);
    ops_.add_bias(block.out_bias, branch_NC_);
    ops_.layer_norm(block.norm, x_NC_, branch_NC_, slots.norm, x_NC_, hidden_NC_);
    ops_.linear(block.up, hidden_NC_, slots.inner_NF);
    ops_.add_bias(block.up_bias, slots.inner_NF);
  }

  // Restores the norm of a block's input to what was kept of it.
  void restore(int64_t layer) {
    const Slot rounded = rounded_NC_[static_cast<size_t>(layer)];
    ops_.restore(rounded, entry(layer).normed_NC);
    ops_.drop({rounded});
  }

  // Restores the shared slots to what this block's forward pass left there.
  void recompute(int64_t layer) {
    ops_.layer_norm_again(entry_norms_[static_cast<size_t>(layer)], entry(layer), x_NC_,
                          hidden_NC_);
    attend(layer);
    if (recompute_ == config::Recompute::kBlock) forward_inner(layer);
  }

  void backward_mlp(int64_t layer) {
    const Weights& block = weights(layer);
    const Saved& slots = saved(layer);
    ops_.linear_backward_input(block.down, dx_rounded_NC_, inner_NF_);
    ops_.gelu_backward(slots.inner_NF, inner_NF_, inner_NF_);
    ops_.linear_backward_weight(block.down, dx_rounded_NC_, inner_NF_);
    ops_.bias_backward(block.down_bias, dx_rounded_NC_);
    ops_.drop({inner_NF_});
    ops_.linear_backward_input(block.up, slots.inner_NF, branch_NC_);
    ops_.layer_norm_backward(block.norm, slots.norm, branch_NC_, dx_NC_, dx_rounded_NC_,
                             hidden_NC_);
    ops_.linear_backward_weight(block.up, slots.inner_NF, hidden_NC_);
    ops_.bias_backward(block.up_bias, slots.inner_NF);
  }

  void backward_attention(int64_t layer) {
    const Weights& block = weights(layer);
    const AttentionSlots& slots = saved(layer).attention;
    ops_.linear_backward_input(block.out, dx_rounded_NC_, branch_NC_);
    ops_.linear_backward_weight(block.out, dx_rounded_NC_, slots.out_NC);
    ops_.bias_backward(block.out_bias, dx_rounded_NC_);
    ops_.attention_backward(shape_, slots, branch_NC_);
    ops_.linear_backward_input(block.qkv, slots.qkv_NW, branch_NC_);
    enter_backward(layer);
    ops_.linear_backward_weight(block.qkv, slots.qkv_NW, hidden_NC_);
    ops_.bias_backward(block.qkv_bias, slots.qkv_NW);
  }

  void drop(const Saved& slots) {
    ops_.drop({slots.attention.qkv_NW, slots.attention.out_NC, slots.norm.normed_NC,
               slots.norm.rstd_N, slots.inner_NF});
  }

  Ops& ops_;
  const config::Recompute recompute_;
  const bool rounds_inputs_;  // those of blocks are kept as operands, and one is a stream at a time
  const int64_t layers_;
  const tensor::AttentionShape shape_;
  const int64_t words_;
  const PositionTables tables_;
  std::vector<LayerNorm> entry_norms_;   // one more than there are blocks
  std::vector<Weights> weights_;         // for each block
  std::vector<Saved> saved_;             // likewise
  std::vector<LayerNormSlots> entries_;  // for each entry
  std::vector<Slot> rounded_NC_;         // of each block's entry; only if they are rounded
  const Linear dense_;
  const Bias dense_bias_;
  const Head head_;
  bool keep_ = false;
  Slot x_NC_ = kNoSlot;           // the residual stream
  Slot hidden_NC_ = kNoSlot;      // as an operand
  Slot branch_NC_ = kNoSlot;      // what a branch adds to it; gradients of hidden_
  Slot inner_NF_ = kNoSlot;       // the MLP's inner layer; its gradient
  Slot dx_NC_ = kNoSlot;          // gradient of the residual stream
  Slot dx_rounded_NC_ = kNoSlot;  // as an operand
  Slot first_DC_ = kNoSlot;       // the documents' first tokens
  Slot pooled_DC_ = kNoSlot;      // what the head reads; the gradients of first_
  Slot dpooled_DC_ = kNoSlot;
};

std::unique_ptr<Graph> make_roberta(Ops& ops, const method::ModelSpec& model,
                                    const tensor::Layout& layout, Purpose purpose) {
  if (purpose == Purpose::kDecoding) throw Error("an encoder does not generate text");
  return std::make_unique<RobertaGraph>(ops, model, layout);
}

}  // namespace

// RoBERTa with a classification head (roberta_spec.h), which does not generate.
const ModelEntry kRoberta = {"roberta", make_roberta, false};

}  // namespace thinwire::model
