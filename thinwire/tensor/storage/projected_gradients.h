// All gradients of a step; those of matrices that the optimizer projects are held as their
// projections. So a step can add up the gradients of several passes and know their total norm,
// while a whole gradient is held only for as long as it takes to renew a basis.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <vector>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::tensor {

// A tensor's gradient is whole in a pass
//   if its bases are renewed in the step: then it is added up over all passes and projected after
//   the last one;
//   if it has no bases yet: then that of the pass is projected as soon as it is complete, and the
//   next pass has bases.
// In all other cases each pass adds to the projection.
class ProjectedGradients final : public GradientSink {
 public:
  struct Handlers {
    // How the tensor's gradient is taken; asked in every pass.
    std::function<GradientForm(size_t tensor)> form;
    // Computes or renews the tensor's bases from a whole gradient, of which `projected` becomes the
    // projection.
    std::function<void(size_t tensor, std::span<const float> whole, std::span<float> projected)>
        project;
    std::function<void(int group)> end_group;  // in the step's last pass
  };

  // The layout is that of the parameters, and the arena's has the same tensors with the shapes in
  // which the optimizer takes their gradients. Both must outlive the sink.
  ProjectedGradients(const Layout& layout, Arena& gradients, Handlers handlers);

  void begin(Pass pass, const DevicePlace* device) override;
  OpenGradient open(const GradientRange& range) override;
  void complete(const GradientRange& range) override;
  void end_group(int group) override;
  bool separates_tensors() const override { return true; }

  // Bytes of memory for whole gradients, which the arena does not hold.
  size_t whole_bytes() const;

 private:
  // Memory for a whole gradient. The arena refers to the layout.
  struct Whole {
    explicit Whole(int64_t count);
    const Layout layout;
    Arena values;
    bool used = false;
  };

  float* values_of(Arena& arena, int64_t offset);
  Whole& unused_whole(int64_t count);

  const Layout& layout_;
  Arena& gradients_;
  const Handlers handlers_;
  Pass pass_;
  const DevicePlace* device_ = nullptr;
  std::vector<bool> opened_;          // by tensor: in this step
  std::map<size_t, Whole*> forming_;  // by tensor: those that are being formed
  std::list<Whole> memory_;           // as many as were ever formed at once
};

}  // namespace thinwire::tensor
