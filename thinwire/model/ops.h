// The operations from which the graphs of all architectures are built, with three backends: the CPU
// (cpu_ops.h), LibTorch (torch_ops.h) and text generation (decode_ops.h). An operation works on all
// tokens of the batch at once. Values are stored in slots, which a graph plans when it is
// constructed: a slot holds what was last written there, one row per token. Weights are given as
// offsets in the arena of the parameters; their gradients go to a sink, to which each operation
// reports the gradients that it has completed (tensor/storage/gradient_sink.h). Frozen weights
// (weights.h) have no gradients, and operations compute none.
//
// A slot is a stream (fp32: the residual stream, statistics, their gradients) or an operand (in the
// precision of the matrix products). Where an operation says that it replaces a slot, the old
// values are lost.
//
// Shape suffixes: N tokens of the batch, C model width, F intermediate, W a token's queries, keys
// and values, H heads, I input features, O output features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/rope.h"
#include "thinwire/model/batch.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/model.h"
#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// The bias of a product: one vector for each of the matrices whose outputs are side by side
// (linear.h).
class Bias {
 public:
  struct Part {
    tensor::GradientRange range;  // in the arena
    int64_t column;               // the first output that it is added to
  };

  Bias() = default;  // none
  // The tensors of these names, in this order.
  Bias(const tensor::Layout& layout, const std::vector<std::string>& names) {
    int64_t column = 0;
    for (const std::string& name : names) {
      const size_t index = layout.find(name);
      const int64_t count = layout.specs()[index].count();
      parts_.push_back({{layout.offset(index), count}, column});
      column += count;
    }
  }

  std::span<const Part> parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
};

using Slot = int;
inline constexpr Slot kNoSlot = -1;

// What the backward pass of a norm needs: its input and 1 / the input's rms.
struct NormSlots {
  Slot x_NC, rstd_N;  // streams
};

// An RMSNorm of columns of an operand: from `column` on, `groups` of `width` one after the other,
// each by itself with the same weight.
struct NormColumns {
  int64_t weight;  // in the arena
  int64_t column;
  int64_t groups;
  int64_t width;
  int64_t statistic = 0;  // column of the first group's 1 / rms
};

// What its backward pass needs: the columns before the norm, at the same place, and 1 / rms.
struct PreNormSlots {
  Slot x_NW;     // an operand
  Slot rstd_NG;  // a stream
};

// A LayerNorm whose result is the residual stream.
struct LayerNorm {
  int64_t weight, bias;  // in the arena
};

// What its backward pass needs: its input, centered and divided by its standard deviation, and 1 /
// that deviation.
struct LayerNormSlots {
  Slot normed_NC, rstd_N;  // streams
};

// The tables, besides that of tokens, that become a token's input: that of positions, of which the
// token at position i of its document takes row first + i, and that of token types, of which every
// token takes row 0.
struct PositionTables {
  int64_t positions, position_rows, first;
  int64_t types, type_rows;
};

// The last product and its slots.
struct Head {
  int64_t weight;          // [outputs, C] in the arena
  int64_t outputs;         // the vocabulary's size, or classes
  Slot x_NC;               // its input: the result of Graph::forward()
  Slot dx_NC;              // where Graph::backward() expects the input's gradient
  int64_t bias = kNoBias;  // [outputs] in the arena
  bool embeds = false;     // the weight is also the table of tokens, of which embed() reads
  static constexpr int64_t kNoBias = -1;
};

// What attention reads and writes.
struct AttentionSlots {
  Slot qkv_NW, out_NC;  // operands
  Slot log_sum_exp_NH;  // a stream
};

class Ops {
 public:
  Ops() = default;
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

  // Planning, before the first batch.
  virtual Slot stream(int64_t width) = 0;
  virtual Slot operand(int64_t width) = 0;
  // All norms add `eps` to the mean square of their input; their widest weight has `widest` values.
  virtual void plan_norms(double eps, int64_t widest) = 0;
  // The attention of `layers` blocks, whose shapes differ in nothing but the window.
  virtual void plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                              const RopeSpec& rope) = 0;
  // An operand that norm_backward() keeps equal to the stream: the stream itself in fp32.
  virtual Slot rounded(Slot stream) = 0;

  // Starts a batch, which must stay valid until the next one. keep: a backward pass follows.
  virtual void begin_batch(const Batch& batch, bool keep) = 0;
  // Sets where the batch's gradients go, as a pass of a step.
  virtual void begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) = 0;
  // The slots' values are no longer needed.
  virtual void drop(std::initializer_list<Slot> slots) = 0;

  // Forward.
  // x = table[token]
  virtual void embed(int64_t table, Slot x_NC) = 0;
  // saved.x = x + branch (kNoSlot: x), out = rmsnorm(saved.x) * weight. saved.x may be x.
  virtual void add_norm(Slot x_NC, Slot branch_NC, int64_t weight, const NormSlots& saved,
                        Slot out_NC) = 0;
  // kept = x, as an operand, and back.
  virtual void keep(Slot x_NC, Slot kept_NC) = 0;
  virtual void restore(Slot kept_NC, Slot x_NC) = 0;
  // sum = x + branch (kNoSlot: x), which may be x; out = sum, as an operand.
  virtual void add_branch(Slot x_NC, Slot branch_NC, Slot sum_NC, Slot out_NC) = 0;
  // y = x W^T
  virtual void linear(const Linear& linear, Slot x_NI, Slot y_NO) = 0;
  // y += bias
  virtual void add_bias(const Bias& bias, Slot y_NO) = 0;
  // Replaces the columns by their normalized values.
  virtual void norm_columns(const NormColumns& norm, Slot x_NW, const PreNormSlots& saved) = 0;
  // x += the rows of the tables.
  virtual void add_positions(const PositionTables& tables, Slot x_NC) = 0;
  // y = layernorm(x + branch) (kNoSlot: x), out = y as an operand. y may be x.
  virtual void layer_norm(const LayerNorm& norm, Slot x_NC, Slot branch_NC,
                          const LayerNormSlots& saved, Slot y_NC, Slot out_NC) = 0;
  // y and out again.
  virtual void layer_norm_again(const LayerNorm& norm, const LayerNormSlots& saved, Slot y_NC,
                                Slot out_NC) = 0;
  virtual void gelu(Slot x_NF, Slot out_NF) = 0;
  // x = tanh(x)
  virtual void tanh(Slot x_NC) = 0;
  // out = the rows of x of the first positions of the batch's labelled documents (class_targets());
  // the operations that follow work on these rows instead of all tokens.
  virtual void select_first(Slot x_NC, Slot out_DC) = 0;
  // Attention of block `layer`, with rotary positions, within each of the batch's documents.
  virtual void attention(int64_t layer, const tensor::AttentionShape& shape,
                         const AttentionSlots& slots) = 0;
  // out = silu(gate) * up
  virtual void swiglu(Slot gate_up_N2F, Slot out_NF) = 0;

  // Backward. Slots named d... hold gradients.
  virtual void clear(Slot dx_NC) = 0;
  // dx += the norm's input gradient, given that of its output; also computes dx as an operand, the
  // norm's output again, and the weight's gradient, which is then complete.
  virtual void norm_backward(const NormSlots& saved, int64_t weight, Slot dout_NC, Slot dx_NC,
                             Slot dx_rounded_NC, Slot out_NC) = 0;
  // dx += dout; also computes dx as an operand, and the output again.
  virtual void add_branch_backward(Slot sum_NC, Slot dout_NC, Slot dx_NC, Slot dx_rounded_NC,
                                   Slot out_NC) = 0;
  // dx = the columns' gradients before the norm, given those after it, which may be dx. The
  // weight's gradient is then complete.
  virtual void norm_columns_backward(const NormColumns& norm, const PreNormSlots& saved,
                                     Slot dout_NW, Slot dx_NW) = 0;
  // The sums of dy over the tokens, which are complete.
  virtual void bias_backward(const Bias& bias, Slot dy_NO) = 0;
  // dx = dy W
  virtual void linear_backward_input(const Linear& linear, Slot dy_NO, Slot dx_NI) = 0;
  // dW = dy^T x, or the projection of it that the sink asks for, which is complete.
  virtual void linear_backward_weight(const Linear& linear, Slot dy_NO, Slot x_NI) = 0;
  // Replaces queries, keys and values by their gradients.
  virtual void attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                                  Slot dout_NC) = 0;
  // Replaces gate and up by their gradients, and writes the output again, which may replace dout.
  virtual void swiglu_backward(Slot gate_up_N2F, Slot dout_NF, Slot out_NF) = 0;
  // dtable[token] += dx, which completes the table's gradient, all at once or slab by slab.
  virtual void embed_backward(Slot dx_NC, int64_t table) = 0;

  virtual void positions_backward(Slot dx_NC, const PositionTables& tables) = 0;
  // With dy = dx + dout, dx becomes the gradient of the norm's input; also computes it as an
  // operand, the output again, and the gradients of weight and bias, which are then complete.
  virtual void layer_norm_backward(const LayerNorm& norm, const LayerNormSlots& saved, Slot dout_NC,
                                   Slot dx_NC, Slot dx_rounded_NC, Slot out_NC) = 0;
  // Replaces x by its gradient, and writes the output again, which may replace dout.
  virtual void gelu_backward(Slot x_NF, Slot dout_NF, Slot out_NF) = 0;
  // Replaces dout by the gradient of what tanh() made y of.
  virtual void tanh_backward(Slot y_NC, Slot dout_NC) = 0;
  // dx = the gradients of the rows that select_first() took, 0 in all others; operations work on
  // all tokens again.
  virtual void select_first_backward(Slot dout_DC, Slot dx_NC) = 0;

  // The last product and its cross entropy with the batch's targets and weights, or after
  // select_first() with the classes of the documents.
  virtual void cross_entropy(const Head& head) = 0;
  // The same, plus dx and the weight's gradient of scale * loss, which is then complete, all at
  // once or slab by slab, unless embed_backward() adds to it.
  virtual void cross_entropy_gradients(const Head& head, float scale) = 0;
  // The gradient of the head's bias, if it has one, which is then complete.
  virtual void head_bias_backward(const Head& head) = 0;
  // The last product, with its bias, in fp32: a row after the other.
  virtual void head_logits(const Head& head, std::span<float> out) = 0;
  // The loss of the last of these calls, in nats.
  virtual double loss() = 0;
  // As cross_entropy(), but the loss of each of the batch's documents.
  virtual void document_losses(const Head& head, std::span<double> losses) = 0;
  // The weights of the batch's positions have changed since it began.
  virtual void take_weights(const Batch& batch) = 0;

  // As the functions of the same name in Model.
  virtual void refresh() = 0;
  virtual void refresh_frozen() = 0;
  virtual PassTimes times() const { return {}; }
  virtual size_t bytes() const = 0;
};

}  // namespace thinwire::model
