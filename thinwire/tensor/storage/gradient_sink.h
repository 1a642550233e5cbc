// Where a backward pass puts the gradients of the parameters. The sink says where each gradient is
// computed and is notified when it is complete, so a step can hold all gradients at once or one at
// a time.
//
// Only a backend has both factors of a gradient dW = dy^T x; a sink never sees them. A sink opens
// memory, and the backend computes the gradient there with its own products, in the memory of its
// own device, and completes it. So a sink is the same for every backend and precision. If the
// optimizer needs no more of a gradient than its projection, the sink names the bases with the
// memory, and the backend projects the factors instead of their product: dy^T (x Q) or (dy P)^T x
// (Zhao et al. 2024, arXiv 2403.03507, has the projections; LoRA's gradient for B is the first).
//
// Ranges refer to the parameters' layout: one tensor, neighbouring tensors whose gradients are one
// product, or some rows of a tensor, whose slabs come one after the other. A sink is used by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

// A pass of a step. A step processes its rows in one or several passes.
struct Pass {
  bool first = true;  // its gradients replace older ones; later passes add theirs
  bool last = true;   // the step's gradients are complete after this pass
};

struct GradientRange {
  int64_t offset = 0;
  int64_t count = 0;
};

// The bases in which the gradient of a matrix W [outputs, inputs] is formed: P^T dy^T x Q, without
// the factor of a side that is not projected. Rows are basis vectors, in host memory.
struct Projection {
  const float* left = nullptr;   // P^T [rank, outputs]
  const float* right = nullptr;  // Q^T [rank, inputs]
  int64_t rank = 0;              // 0: the whole gradient

  explicit operator bool() const { return rank > 0; }
  int64_t rows(int64_t outputs) const { return left == nullptr ? outputs : rank; }
  int64_t columns(int64_t inputs) const { return right == nullptr ? inputs : rank; }
};

// How an optimizer takes the gradient of a tensor in a step.
struct GradientForm {
  bool projected = false;  // takes no more than a projection
  Projection bases = {};   // the current ones; none before the tensor's first gradient
  bool renewed = false;    // the bases are renewed in this step, which takes the whole gradient

  // What the backward pass forms.
  Projection in_pass() const { return renewed ? Projection{} : bases; }
};

// Memory for the gradient of a range, in the layout's order, or for its projection.
struct OpenGradient {
  float* values = nullptr;
  float keep = 0;  // 0: overwrite the values; 1: add to them
  Projection projection = {};
};

class GradientSink {
 public:
  GradientSink() = default;
  virtual ~GradientSink() = default;
  GradientSink(const GradientSink&) = delete;
  GradientSink& operator=(const GradientSink&) = delete;

  // Called before a pass. Memory is opened on the device, or on the processor if it is null.
  virtual void begin(Pass pass, const DevicePlace* device) = 0;
  // The memory is valid until the next call. If a range is opened again before it is complete, its
  // gradient is added to; this happens to an embedding that is also the head. A pass opens every
  // parameter.
  virtual OpenGradient open(const GradientRange& range) = 0;
  // The pass has computed the gradient of the range and no longer reads its weights.
  virtual void complete(const GradientRange& range) = 0;
  // All tensors of the group are complete (base/gradient_groups.h). Groups end in their order.
  virtual void end_group(int group) = 0;
  // Whether every tensor is a range of its own, since each may have bases.
  virtual bool separates_tensors() const { return false; }
};

// All gradients, in an arena of the parameters' layout.
class WholeGradients final : public GradientSink {
 public:
  using EndGroup = std::function<void(int group)>;

  // end_group, if set, is called for each group in the step's last pass, when the group's gradients
  // are complete. It may read the arena. The arena must outlive the sink.
  explicit WholeGradients(Arena& gradients, EndGroup end_group = {});

  void begin(Pass pass, const DevicePlace* device) override;
  OpenGradient open(const GradientRange& range) override;
  void complete(const GradientRange&) override {}
  void end_group(int group) override;

 private:
  Arena& gradients_;
  const EndGroup end_group_;
  Pass pass_;
  bool on_device_ = false;
  std::set<int64_t> opened_;  // offsets opened in a first pass on the processor
};

// Elements that a backward pass needs if gradients are computed one after another.
struct StreamSize {
  int64_t largest = 0;  // of the largest gradient that is computed and completed at once
  // The gradient that stays open for the whole pass: that of an embedding that is also the head. If
  // the range is empty, there is none.
  GradientRange held = {};
};

// One gradient at a time: each is handed over as soon as it is complete, and its memory is reused
// for the next one. A step has one pass. Gradients are whole, or where `form` gives bases
// projections.
class StreamedGradients final : public GradientSink {
 public:
  struct Handlers {
    // The tensor's gradient, or that of its next rows, is complete and the weights of these are no
    // longer read, so they may change now. The values are in host memory and valid until the call
    // returns.
    std::function<void(size_t tensor, std::span<const float> gradient)> take;
    std::function<void(int group)> end_group;
    // If set, how the tensor's gradient is formed; take() gets it that way.
    std::function<GradientForm(size_t tensor)> form = {};
  };

  // The layout of the parameters must outlive the sink.
  StreamedGradients(const Layout& layout, const StreamSize& size, Handlers handlers);

  void begin(Pass pass, const DevicePlace* device) override;
  OpenGradient open(const GradientRange& range) override;
  void complete(const GradientRange& range) override;
  void end_group(int group) override { handlers_.end_group(group); }
  bool separates_tensors() const override { return static_cast<bool>(handlers_.form); }

  // Bytes of the memory in which gradients are computed.
  size_t bytes() const;

 private:
  // The arena refers to the layout.
  struct Memory {
    explicit Memory(int64_t count);
    const Layout layout;
    Arena values;
    bool opened = false;  // and not yet complete
  };

  Memory& memory_of(const GradientRange& range);
  void take(const GradientRange& range, std::span<const float> values);

  const Layout& layout_;
  const Handlers handlers_;
  const GradientRange held_range_;
  Memory product_, held_;
  Projection projection_;  // of the gradient that is open
  bool on_device_ = false;
};

// The tensor that has the value at `offset`.
size_t tensor_at(const Layout& layout, int64_t offset);

}  // namespace thinwire::tensor
