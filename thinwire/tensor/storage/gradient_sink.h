// Where a backward pass leaves the gradients of the parameters: the sink says where each is formed,
// and hears when it is complete, so that a step may hold all of them at once or one at a time.
//
// Only a backend has both factors of a gradient dW = dy^T x, and no sink ever sees them: a sink
// opens memory, the backend forms the gradient there, by its own products and in its own device's
// memory, and completes it. So a sink is the same for every backend and precision. One that keeps
// projections (dy^T (x Q), or (dy P)^T x) would name its basis in OpenGradient.
//
// Ranges are of the parameters' layout: a tensor, or neighbours that are one product. A sink is
// used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

// A pass of a step, which takes the step's rows in one or several.
struct Pass {
  bool first = true;  // its gradients replace older ones; those of later passes are added to them
  bool last = true;   // the step's gradients are complete after it
};

struct GradientRange {
  int64_t offset = 0;
  int64_t count = 0;
};

// Memory for the gradient of a range, in the layout's order.
struct OpenGradient {
  float* values = nullptr;
  float keep = 0;  // 0: what is there is nothing, and is overwritten; 1: it is added to
};

class GradientSink {
 public:
  GradientSink() = default;
  virtual ~GradientSink() = default;
  GradientSink(const GradientSink&) = delete;
  GradientSink& operator=(const GradientSink&) = delete;

  // Before a pass. With a device (null: the processor) memory is opened there.
  virtual void begin(Pass pass, const DevicePlace* device) = 0;
  // The memory is valid until the next call. A range that is opened again before it is complete, as
  // that of an embedding which is the head too, is added to. A pass opens every parameter.
  virtual OpenGradient open(const GradientRange& range) = 0;
  // The pass has formed the gradient of the range, and reads its weights no more.
  virtual void complete(const GradientRange& range) = 0;
  // So it is with all tensors of the group (base/gradient_groups.h); groups come in their order.
  virtual void end_group(int group) = 0;
};

// All gradients, in an arena of the parameters' layout.
class WholeGradients final : public GradientSink {
 public:
  using EndGroup = std::function<void(int group)>;

  // end_group, if set, hears of groups in the step's last pass, whose gradients are complete; it
  // may look at the arena. The arena outlives the sink.
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
  std::set<int64_t> opened_;  // offsets, in a first pass on the processor
};

// Elements that a backward pass needs where gradients are formed one after another.
struct StreamSize {
  int64_t largest = 0;  // of the largest gradient that is formed and completed at once
  // The one that is open from the pass's beginning to its end: an embedding's that is the head too.
  // Without elements there is none.
  GradientRange held = {};
};

// One gradient at a time: each is handed over as soon as it is complete, and its memory taken for
// the next one. A step has one pass.
class StreamedGradients final : public GradientSink {
 public:
  struct Handlers {
    // The tensor's gradient is complete and its weights are read no more, so they may change now.
    // The values are the host's, and valid until the call returns.
    std::function<void(size_t tensor, std::span<const float> gradient)> take;
    std::function<void(int group)> end_group;
  };

  // The layout of the parameters outlives the sink.
  StreamedGradients(const Layout& layout, const StreamSize& size, Handlers handlers);

  void begin(Pass pass, const DevicePlace* device) override;
  OpenGradient open(const GradientRange& range) override;
  void complete(const GradientRange& range) override;
  void end_group(int group) override { handlers_.end_group(group); }

  // Of the memory in which gradients are formed.
  size_t bytes() const;

 private:
  // Its arena refers to its layout.
  struct Memory {
    explicit Memory(int64_t count);
    const Layout layout;
    Arena values;
    bool opened = false;  // and not complete
  };

  Memory& memory_of(const GradientRange& range);

  const Layout& layout_;
  const Handlers handlers_;
  const GradientRange held_range_;
  Memory product_, held_;
  bool on_device_ = false;
};

}  // namespace thinwire::tensor
