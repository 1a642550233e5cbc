// The parts of the LibTorch backend (model/torch_ops.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "thinwire/base/rope.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/model/batch.h"
#include "thinwire/model/decoding.h"
#include "thinwire/model/linear.h"
#include "thinwire/model/model.h"
#include "thinwire/model/ops.h"
#include "thinwire/tensor/kernels/attention.h"
#include "thinwire/tensor/storage/device.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace at {
class Tensor;
}

namespace thinwire::model {

// The parameters of a model on a device of LibTorch: the device's copy of their arena
// (Arena::mirror_on) if it has one there, else a copy of their own, as frozen ones are.
// Offsets are those of weights.h.
class TorchParameters {
 public:
  // frozen: null if there are none. Throws Error when the device lacks memory.
  TorchParameters(const tensor::Arena& params, const tensor::Arena* frozen,
                  const tensor::DevicePlace& place, Precision precision);
  ~TorchParameters();
  TorchParameters(const TorchParameters&) = delete;
  TorchParameters& operator=(const TorchParameters&) = delete;

  // As the functions of the same name in Model.
  void refresh();
  void refresh_frozen();

  // In fp32, on the device.
  const float* values(int64_t offset) const;
  // As an operand [rows, columns] of matrix products.
  at::Tensor matrix(int64_t offset, int64_t rows, int64_t columns) const;

  // The size of copies in another format than fp32.
  size_t copied_bytes() const;

 private:
  struct Copies;
  const std::unique_ptr<Copies> copies_;
};

// Where the LibTorch backend puts the gradients of a pass: what an operation has formed is added to
// the gradient that the sink opens, which is then complete. Nothing is added to frozen parameters.
//
// Shape suffixes: N tokens, C model width, I input features, O output features.

// T is the type of operands, float or Bf16.
template <typename T>
class TorchGradients {
 public:
  explicit TorchGradients(const tensor::DevicePlace& place) : place_(place) {}

  void begin(tensor::GradientSink& sink, tensor::Pass pass);
  const tensor::GradientSink& sink() const { return *sink_; }

  void add_vector(const tensor::GradientRange& range, const at::Tensor& gradient);
  // The gradient of a table [rows, C] of which each token took the row of this number.
  void add_rows(int64_t table, int64_t rows, const at::Tensor& dx_NC, const at::Tensor& row_N);
  // dy^T x of the matrix at `offset`, or its projection.
  void add_matrix(int64_t offset, const at::Tensor& dy_NO, const at::Tensor& x_NI);

  // The gradient of a matrix, to be added to piece by piece until complete().
  at::Tensor open(int64_t offset, int64_t rows, int64_t columns);
  void complete(int64_t offset, int64_t rows, int64_t columns) {
    sink_->complete({offset, rows * columns});
  }
  // gradient += dy^T x
  static void add_product(const at::Tensor& gradient_OI, const at::Tensor& dy_NO,
                          const at::Tensor& x_NI);

 private:
  at::Tensor opened(const tensor::OpenGradient& to, int64_t rows, int64_t columns) const;
  // The factor of a gradient in the basis [rank, width] in host memory; null: as it is.
  static at::Tensor project(const at::Tensor& factor, const float* basis, int64_t rank);

  const tensor::DevicePlace place_;
  tensor::GradientSink* sink_ = nullptr;  // of the current pass
};

// The slots of the LibTorch backend (ops.h): tensors [rows, width], allocated when they are
// written.
class TorchSlots {
 public:
  explicit TorchSlots(const tensor::DevicePlace& place);
  ~TorchSlots();
  TorchSlots(const TorchSlots&) = delete;
  TorchSlots& operator=(const TorchSlots&) = delete;

  Slot add(int64_t width, Precision precision);
  // Rows of what is written from now on: tokens, or texts with a class.
  void set_rows(int64_t rows);
  int64_t rows() const;
  int64_t width(Slot slot) const;

  // What was last written there.
  at::Tensor& value(Slot slot);
  // Gives the slot new uninitialised memory; holders of the old values keep them.
  at::Tensor fresh(Slot slot);
  // Gives the slot memory for its rows, its existing memory if that is as large.
  at::Tensor fitting(Slot slot);

  size_t bytes() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Attention of the LibTorch backend: rotary positions by our own kernel, the rest by ATen's
// scaled_dot_product_attention, whose backward pass is the only use of autograd. A window smaller
// than the row becomes a mask, and so do several documents in a row. Their positions count from the
// row's beginning, which makes no difference: scores depend on distances only. One thread uses it
// at a time.
//
// Shape suffixes: N tokens, W a token's queries, keys and values, C the width of all heads.

// T is the type of operands, float or Bf16.
template <typename T>
class TorchAttention {
 public:
  TorchAttention(const tensor::DevicePlace& place, ThreadPool& threads);
  ~TorchAttention();
  TorchAttention(const TorchAttention&) = delete;
  TorchAttention& operator=(const TorchAttention&) = delete;

  // For rows of up to `positions` tokens.
  void plan(int64_t positions, const tensor::AttentionShape& shape, const RopeSpec& rope);
  // keep: backward() follows.
  void begin_batch(const Batch& batch, bool keep);

  // Rotates qkv in place and returns the heads' output [N, C]. What backward() needs is stored
  // under `key`, a slot, until drop().
  at::Tensor forward(int key, const tensor::AttentionShape& shape, const at::Tensor& qkv_NW);
  // Returns the gradients [N, W] of qkv as it was before forward().
  at::Tensor backward(int key, const tensor::AttentionShape& shape, const at::Tensor& dout_NC);
  void drop(int key);

  size_t bytes() const;  // of tables and masks

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Attention of Decoding (decoding.h): the keys and values of earlier tokens stay on the device.
class TorchCachedAttention {
 public:
  // For texts of up to `context` tokens.
  TorchCachedAttention(const tensor::DevicePlace& place, ThreadPool& threads, int64_t context);
  ~TorchCachedAttention();
  TorchCachedAttention(const TorchCachedAttention&) = delete;
  TorchCachedAttention& operator=(const TorchCachedAttention&) = delete;

  void plan(int64_t layers, const tensor::AttentionShape& shape, const RopeSpec& rope);
  void grow_to(int64_t length);
  void begin_tokens(std::vector<Segment> segments);
  // Rotates qkv in place, keeps its keys and values, and returns the heads' output [N, C].
  at::Tensor forward(int64_t layer, const tensor::AttentionShape& shape, const at::Tensor& qkv_NW);

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The last product and its cross entropy with LibTorch, in chunks of rows so that the logits never
// exist as a whole.
//
// Shape suffixes: N rows (tokens, or texts with a class), C model width.

// T is the type of operands, float or Bf16.
template <typename T>
class TorchHead {
 public:
  // Computes `chunk` rows at a time. The parameters and gradients must outlive it.
  TorchHead(const tensor::DevicePlace& place, ThreadPool& threads, const TorchParameters& params,
            TorchGradients<T>& gradients, int64_t chunk);
  ~TorchHead();
  TorchHead(const TorchHead&) = delete;
  TorchHead& operator=(const TorchHead&) = delete;

  // What the rows should predict, on the CPU; null weights: all 1.
  void set_targets(std::span<const int32_t> targets_N);
  void set_weights(const float* weights_N);

  // The weighted losses [N] of these rows.
  const at::Tensor& losses(const Head& head, const at::Tensor& x_NC);
  // The same, and the gradients of scale * their sum: dx, and that of the head's weight, which the
  // caller completes.
  void gradients(const Head& head, const at::Tensor& x_NC, float scale, const at::Tensor& dx_NC);
  // The gradient of its bias, if it has one, which is then complete.
  void bias_backward(const Head& head);
  // The loss of the last call, in nats.
  double loss() const;
  void logits(const Head& head, const at::Tensor& x_NC, std::span<float> out) const;

  size_t bytes() const;  // of the targets

 private:
  struct State;
  // dx null: losses only.
  void compute(const Head& head, const at::Tensor& x, float scale, const at::Tensor* dx);

  const std::unique_ptr<State> state_;
};

// What encoders compute by LibTorch besides products and attention. All tensors are fp32.
//
// Shape suffixes: N tokens, C model width.

// LayerNorm of rows before weight and bias, and 1 / their standard deviation [N, 1].
struct TorchNormed {
  at::Tensor normed_NC, rstd_N1;
};
TorchNormed torch_layer_norm(const at::Tensor& x_NC, float eps);

at::Tensor scaled_and_shifted(const at::Tensor& normed_NC, const at::Tensor& weight_C,
                              const at::Tensor& bias_C);

// The gradient of x, given that of the result.
at::Tensor torch_layer_norm_backward(const TorchNormed& saved, const at::Tensor& weight_C,
                                     const at::Tensor& dy_NC);

// The position of each token in its document, plus `first` [N], on the CPU.
at::Tensor torch_positions(const Batch& batch, int64_t first);

// The products of cpu_ops.h with LibTorch.

// Shape suffixes as in cpu_ops.h. All tensors are operands on the parameters' device.
class TorchAdapters {
 public:
  // Computes the gradient dy^T x of the matrix at an offset of the parameters.
  using AddGradient =
      std::function<void(int64_t offset, const at::Tensor& dy, const at::Tensor& x)>;

  // The parameters must outlive it.
  TorchAdapters(const method::AdapterSpec& adapter, const TorchParameters& params);

  void forward(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO) const;
  void backward_input(const Linear& linear, const at::Tensor& dy_NO, const at::Tensor& dx_NI) const;
  void backward_weight(const Linear& linear, const at::Tensor& dy_NO, const at::Tensor& x_NI,
                       const AddGradient& add) const;

 private:
  at::Tensor a(const Linear& linear, const Linear::Factors& factors) const;
  at::Tensor b(const Linear::Factors& factors) const;

  const int64_t rank_;
  const double scale_;
  const TorchParameters& params_;
};

// How LibTorch computes in this program.

// Makes LibTorch's operations deterministic: the same inputs give the same bits, and sums of
// products are fp32. Must be called before its first operation on a GPU.
void choose_torch_arithmetic();

}  // namespace thinwire::model
