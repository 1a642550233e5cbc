// A Llama on the processor: one class for both precisions.
//
// Shape suffixes: N tokens of the batch, C hidden, F intermediate, W a token's queries, keys and
// values, H heads, V vocabulary.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/model/model.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/aligned_buffer.h"
#include "thinwire/tensor/cross_entropy.h"

namespace thinwire::model {

// T is the type of the operands and results of the matrix products.
template <typename T>
class LlamaEngine final : public Model {
 public:
  explicit LlamaEngine(const ModelParts& parts);
  ~LlamaEngine() override;

  void refresh() override;
  size_t activation_bytes() const override;
  PassTimes times() const override { return times_; }

 private:
  template <typename E>
  using Buffer = tensor::AlignedBuffer<E>;

  // What the backward pass of one block needs. Everything else it computes again on its way.
  struct Input {
    Buffer<float> x_NC, rstd_N;  // input of the attention norm, 1 / its rms
    size_t bytes() const;
  };
  struct Attention {
    Buffer<T> qkv_NW, out_NC;
    Buffer<float> log_sum_exp_NH;
    size_t bytes() const;
  };
  struct Mlp {
    Buffer<float> x_NC, rstd_N;
    Buffer<T> gate_up_N2F;
    size_t bytes() const;
  };

  double batch_gradients(float gradient_scale, tensor::Arena& gradients,
                         const LayerReady& layer_ready, Gradients mode) override;
  double batch_loss() override;
  void begin_batch();
  // From the embedding to the final norm's output in hidden_.
  void forward();
  void forward_block(int64_t layer);
  // From the attention norm's output in hidden_: queries, keys and values, and the heads' output.
  void attend(int64_t layer);
  // From the heads' output to the gates and ups of the MLP.
  void forward_gate_up(int64_t layer);
  // Fills the buffers that the blocks share with what this block's forward pass left there.
  void recompute(int64_t layer);
  // Zeros where gradients are added up that no product replaces.
  void clear_others(float* gradients);
  // From the gradient of the final norm's output in branch_ to all gradients but the head's.
  void backward(tensor::Arena& gradients, const LayerReady& layer_ready);
  void backward_mlp(int64_t layer, float* gradients);
  void backward_attention(int64_t layer, float* gradients);
  void embed();
  void backward_embedding(float* gradients);

  // hidden_ = rmsnorm(sum) for sum = x + branch_ (or x alone).
  void norm(const float* x, bool add_branch, int64_t weight, float* sum, float* rstd);
  // Adds the norm's gradient to dx_ for the gradient of its output in branch_; hidden_ becomes the
  // norm's output again.
  void backward_norm(const float* x, const float* rstd, int64_t weight, float* gradients);

  // Calls body(first, count) over the batch's tokens, split over the threads.
  template <typename Body>
  void over_tokens(const Body& body);
  template <typename Body>
  void over_heads(const Body& body);

  Attention& attention(int64_t layer) { return attentions_[layer % attentions_.size()]; }
  Mlp& mlp(int64_t layer) { return mlps_[layer % mlps_.size()]; }

  const float* parameters() const;
  const T* weights() const;
  T* dx_operand();

  const config::ModelSection model_;
  const LlamaWeights where_;
  const Recompute recompute_;
  tensor::Arena& params_;
  ThreadPool& threads_;
  const int64_t max_tokens_;
  const tensor::RopeTable rope_;
  tensor::LinearCrossEntropy<T> head_;

  Buffer<T> copy_;                     // of the parameters, where T is not float
  std::vector<Input> inputs_;          // for each block
  std::vector<Attention> attentions_;  // for each block, or one where they are computed again
  std::vector<Mlp> mlps_;              // likewise
  Buffer<float> final_x_NC_, final_rstd_N_;
  Buffer<T> hidden_NC_;   // output of a norm
  Buffer<T> branch_NC_;   // what a branch adds to the residual stream; gradients of hidden_
  Buffer<T> inner_NF_;    // the MLP's hidden layer
  Buffer<T> dinner_NF_;   // its gradient
  Buffer<float> dx_NC_;   // gradient of the residual stream
  Buffer<T> dx_copy_NC_;  // rounded, where T is not float
  Buffer<float> dnorm_;   // a norm weight's gradient for each thread
  std::vector<tensor::AttentionScratch> scratch_;  // for each thread
  PassTimes times_;
  float keep_ = 1;  // by which products multiply the gradients that are there
  int64_t rows_ = 0, sequence_ = 0, tokens_ = 0;  // of the present batch
};

}  // namespace thinwire::model
