// Where a backward pass puts the gradients of the parameters. The sink says where each gradient is
// computed and is told when it is complete, so a step can hold all gradients at once or one at a
// time.
//
// Only a backend has both factors of a gradient dW = dy^T x; a sink never sees them. A sink opens
// memory, and the backend computes the gradient there with its own products, in the memory of its
// own device, and completes it. So a sink is the same for every backend and precision. A sink that
// keeps projections (dy^T (x Q), or (dy P)^T x) would name its basis in OpenGradient.
//
// Ranges refer to the parameters' layout: one tensor, or neighbouring tensors whose gradients are
// one product. A sink is used by one thread.
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

// Memory for the gradient of a range, in the layout's order.
struct OpenGradient {
  float* values = nullptr;
  float keep = 0;  // 0: overwrite the values; 1: add to them
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
// for the next one. A step has one pass.
class StreamedGradients final : public GradientSink {
 public:
  struct Handlers {
    // The tensor's gradient is complete and its weights are no longer read, so they may change now.
    // The values are in host memory and valid until the call returns.
    std::function<void(size_t tensor, std::span<const float> gradient)> take;
    std::function<void(int group)> end_group;
  };

  // The layout of the parameters must outlive the sink.
  StreamedGradients(const Layout& layout, const StreamSize& size, Handlers handlers);

  void begin(Pass pass, const DevicePlace* device) override;
  OpenGradient open(const GradientRange& range) override;
  void complete(const GradientRange& range) override;
  void end_group(int group) override { handlers_.end_group(group); }

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

  const Layout& layout_;
  const Handlers handlers_;
  const GradientRange held_range_;
  Memory product_, held_;
  bool on_device_ = false;
};

}  // namespace thinwire::tensor
