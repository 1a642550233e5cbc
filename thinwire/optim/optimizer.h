// Local optimizers, tensor by tensor: one file of arithmetic each, one line in registry.cpp. Their
// facts (fields, state, the gradient's coordinates) are in method/. The arithmetic is fixed (no
// contraction, no library maths except the correctly rounded square root and division), so replicas
// fed the same gradients stay bit-identical on every instruction set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/optim/state_memory.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::optim {

// How an optimizer reaches the other workers that average their gradients with its own.

// Replaces values that follow linearly from this worker's gradient by their mean over all workers,
// which call it in the same order with as many values. Empty: the gradient is already the mean.
using Average = std::function<void(std::span<float> values)>;

// What is the same for all tensors of a step.
struct OptimizerStep {
  uint64_t number = 0;  // from 0
  float learning_rate = 0;
  float gradient_scale = 1;  // factor for the gradients, e.g. from clipping
};

// One tensor of a step.
struct TensorUpdate {
  size_t tensor = 0;                // its index in the layout
  std::span<float> params;          // row-major, without the gap after them
  std::span<const float> gradient;  // of shape method::gradient_shape
  Bf16* rounded = nullptr;          // if not null, becomes the new params in bf16
  // Params that are kept in bf16 alone; `params` is then empty.
  std::span<Bf16> stored = {};
  // The element that the gradient begins with: more than 0 only where it is that of some rows
  // (method::OptimizerSpec::vocabulary_by_rows).
  int64_t begin = 0;
};

// Values of one tensor of a step on a device.
struct DeviceUpdate {
  size_t tensor;
  const tensor::DevicePlace& device;
  float* params;
  const float* gradient;
  int32_t* failed;  // becomes 1 if state cannot be encoded because it is not finite
};

// For a tensor of the arena. Where a bf16 copy is kept, the update also rounds the tensor into it;
// the caller marks the copy as current once all tensors are updated (Arena::set_rounded_current).
TensorUpdate tensor_update(tensor::Arena& params, size_t tensor, std::span<const float> gradient);
// The same for the rows of a tensor whose gradient, not projected, begins with element `begin`.
TensorUpdate rows_update(tensor::Arena& params, size_t tensor, int64_t begin,
                         std::span<const float> gradient);

// Used by one thread at a time, but each tensor may be updated by a different thread.
class Optimizer {
 public:
  // The layout is that of the parameters, and must outlive the optimizer.
  Optimizer(const method::OptimizerOptions& options, const tensor::Layout& layout);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates a tensor: each once per step, in any order. Where the spec says vocabulary_by_rows,
  // embedding and head may come in several updates of rows, cut at multiples of kSlabElements.
  virtual void update(const TensorUpdate& tensor, const OptimizerStep& step,
                      ThreadPool& threads) = 0;

  // How the tensor's gradient is formed in a step of this number.
  virtual tensor::GradientForm gradient_form(size_t /*tensor*/, uint64_t /*step*/) { return {}; }
  // For a tensor whose form is `projected` but whose gradient is whole in this pass: computes or
  // renews its bases, converts its state to them, then writes the gradient's projection, the form
  // in which update() takes it. With `average`, `whole` is this worker's part of the gradient: the
  // bases follow the mean, and `projected` is this worker's part of the projection.
  virtual void project(size_t tensor, uint64_t step, std::span<const float> whole,
                       std::span<float> projected, ThreadPool& threads, const Average& average);

  // Whether the tensor's gradient has other coordinates after the step of this number, because its
  // bases are then drawn anew, whatever the gradient.
  virtual bool redrawn(size_t /*tensor*/, uint64_t /*step*/) const { return false; }

  // Returns a tensor's OptimizerStep::gradient_scale.
  using ScaleOf = std::function<float(size_t tensor)>;
  // Updates all tensors of the arenas but those that are updated elsewhere. The layout of `params`
  // must be the optimizer's; `grads` has the same tensors with the shapes in which it takes their
  // gradients. Where both arenas have a copy on a device, the state is not in a file, and the
  // optimizer can, the update is computed there. Throws Error if state that is kept in 8 bits is no
  // longer finite.
  void step(tensor::Arena& params, const tensor::Arena& grads, const OptimizerStep& step,
            ThreadPool& threads);
  void step(tensor::Arena& params, const tensor::Arena& grads, const OptimizerStep& step,
            const ScaleOf& scale, ThreadPool& threads);

  // Everything that must be saved besides the step number. The spans stay valid.
  std::vector<OptimizerState> state() { return memory_.all(); }
  // Resets the state to its value before the first step: zeros, unless an optimizer starts
  // differently.
  virtual void reset() { memory_.clear(); }
  // That of one tensor (StateMemory::memory_of), and the size of all of it.
  std::vector<std::span<uint8_t>> state_of(size_t tensor) { return memory_.memory_of(tensor); }
  size_t state_bytes() const { return memory_.bytes(); }

 protected:
  // Whether there is update_on_device(), which gives the bits of update() if other workers take the
  // same steps (OptimizerOptions::replicated).
  virtual bool updates_on_device() const { return false; }
  virtual void update_on_device(const DeviceUpdate& /*tensor*/, const OptimizerStep& /*step*/,
                                ThreadPool& /*threads*/) {}

  const method::OptimizerOptions& options() const { return options_; }
  const TensorSpec& spec(size_t tensor) const { return layout_.specs()[tensor]; }
  // A tensor's state, in the order of OptimizerSpec::state. Pieces of kind kExact are spans.
  StateValues piece(size_t tensor, size_t index) { return memory_.piece(tensor, index); }
  // A piece's values on the device of the parameters, to be changed by update_on_device().
  DevicePiece device_piece(size_t tensor, size_t index, const OptimizerStep& step) {
    return memory_.device_piece(tensor, index, step.number);
  }
  // The same as piece(), of a piece as long as the tensor of which only what is updated will be
  // used.
  StateValues piece(const TensorUpdate& tensor, size_t index) {
    return memory_.piece(tensor.tensor, index, tensor.begin, std::ssize(tensor.gradient));
  }

 private:
  bool computes_on_device(const tensor::Arena& params, const tensor::Arena& grads) const;
  void check_device_state();

  method::OptimizerOptions options_;
  const tensor::Layout& layout_;
  StateMemory memory_;
  // Of the steps on a device: whether state could not be encoded.
  std::optional<tensor::DeviceBuffer<int32_t>> failed_;
};

// An optimizer whose state is spread over several processes (train/site.h), each of which updates
// some of the tensors. Used by one thread.
class SharedOptimizer {
 public:
  virtual ~SharedOptimizer() = default;

  // As Optimizer::step(), with the same bits.
  virtual void step(tensor::Arena& params, const tensor::Arena& grads, const OptimizerStep& step,
                    const Optimizer::ScaleOf& scale) = 0;
  // As Optimizer::state(): of all tensors, in a file. Between collect() and the next step it holds
  // the newest values, and spread() takes what was written there since.
  virtual std::vector<OptimizerState> state() = 0;
  virtual void collect() = 0;
  virtual void spread() = 0;
  virtual void reset() = 0;
};

// Makes one for these options, which are otherwise those of make_optimizer().
using ShareOptimizer =
    std::function<std::unique_ptr<SharedOptimizer>(const method::OptimizerOptions& options)>;

struct OptimizerEntry {
  std::string_view name;  // the same name as in method/optimizers/optimizer.h
  std::unique_ptr<Optimizer> (*make)(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout);
};

std::span<const OptimizerEntry* const> all_optimizers();
// The optimizer of options.spec.
std::unique_ptr<Optimizer> make_optimizer(const method::OptimizerOptions& options,
                                          const tensor::Layout& layout);

// Consecutive elements of a tensor; `begin` is a multiple of kStateBlock.
struct Elements {
  int64_t begin = 0;
  int64_t count = 0;
};
// Returns values [at, at + count) of a tensor: where they are stored, or `room` after writing them
// there.
using ValuesAt = std::function<const float*(int64_t at, int64_t count, float* room)>;

// p = p shrink - rate direction
void step_along(float* p, const float* direction, int64_t count, float shrink, float rate);

// Calls change(begin, count) for pieces of `size` elements that fit the L1 cache (kPiece), on all
// threads.
void for_pieces(int64_t size, ThreadPool& threads,
                const std::function<void(int64_t begin, int64_t count)>& change);
// Calls change(params, begin, count) for such pieces of the tensor, to change its params from
// `begin` on, and then rounds each piece if there is a bf16 copy or the params are kept in bf16:
// the latter stochastically, by the run's seed and the step.
void update_pieces(const method::OptimizerOptions& options, const OptimizerStep& step,
                   const TensorUpdate& tensor, ThreadPool& threads,
                   const std::function<void(float* params, int64_t begin, int64_t count)>& change);
// The same for some of its elements.
void update_pieces(const method::OptimizerOptions& options, const OptimizerStep& step,
                   const TensorUpdate& tensor, const Elements& elements, ThreadPool& threads,
                   const std::function<void(float* params, int64_t begin, int64_t count)>& change);
// Calls change(first, count) for one band of a matrix's rows after the other, so that a step needs
// temporary memory for one band only. Bands begin at multiples of kStateBlock.
void for_bands(int64_t rows, const std::function<void(int64_t first, int64_t count)>& change);

// sqrt of the sum of squares, in an order fixed by position alone (not by threads or vector width;
// base/block_sizes.h).
double global_norm(std::span<const float> values, ThreadPool& threads);
// The same for `count` values that are computed in blocks of at most kNormBlock.
double global_norm(int64_t count, const ValuesAt& values, ThreadPool& threads);
// `sum` and the squares of more values: after all parts of a gradient, cut at multiples of
// kNormBlock, the square of its global_norm() with the same bits.
double add_squares(double sum, std::span<const float> values, ThreadPool& threads);
// The factor that brings a gradient of this norm to at most `clip` (0: never): min(1, clip / (norm
// + 1e-6)).
float clip_scale(double norm, double clip);

// The global norm of an arena, formed where its values are.

// For one arena. Keeps its working memory.
class ArenaNorm {
 public:
  // global_norm() of all values, with the same bits wherever it is formed.
  double of(const tensor::Arena& values, ThreadPool& threads);

 private:
  struct OnDevice {
    tensor::DeviceScratch<double> lane_sums;
    tensor::DeviceBuffer<double> sums;  // of the blocks
  };
  std::optional<OnDevice> on_device_;
};

// The arithmetic of each folder of thinwire/optimizers.
#define THINWIRE_OPTIMIZER(Name) extern const OptimizerEntry k##Name;
#include "thinwire/optimizers/optimizers.inc"
#undef THINWIRE_OPTIMIZER

extern const OptimizerEntry kOwn;

}  // namespace thinwire::optim
