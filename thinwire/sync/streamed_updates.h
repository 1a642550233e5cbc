// An optimizer's step during the backward pass: each tensor is updated as soon as its gradient is
// complete, or slab by slab where it comes in slabs of rows. With several members, the gradients of
// a group of tensors (base/gradient_groups.h) are averaged while those of the next group are
// computed, and applied when the next group is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/base/wire.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/clipping.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/shared_bases.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

class StreamedUpdates {
 public:
  // All arguments must outlive this object.
  StreamedUpdates(const Worker& worker, optim::Optimizer& optimizer, Clipping& clipping,
                  const WireCodec& codec, MemberSum& sum, SharedBases& bases);

  // Like those of Strategy. They throw Error for a gradient that is not finite and leave its tensor
  // unchanged.
  void take(const Round& round, size_t tensor, std::span<const float> gradient);
  void end_group(const Round& round, int group);
  // Applies the remaining gradients. Also returns any failure of the step's earlier sums.
  Result<StepReport> finish(const Round& round);

 private:
  // The average of a group's gradients. Before the exchange it holds only this member's part.
  struct Sum {
    std::vector<float> values;
    size_t group = 0;
  };

  transport::Key key(const Round& round, size_t group) const;
  void reserve();
  // The place of the gradient's first value in its tensor: slabs come in their order.
  size_t begin_of(size_t tensor, std::span<const float> gradient);
  void update(const Round& round, size_t tensor, size_t begin, std::span<const float> gradient);
  // The gradient as the optimizer takes it; one that is whole for this purpose gives the tensor its
  // bases.
  std::span<const float> in_form(const Round& round, size_t tensor,
                                 std::span<const float> gradient);
  // Waits for the sum in flight, if any, and applies it.
  void settle(const Round& round);

  const Worker& worker_;
  optim::Optimizer& optimizer_;
  Clipping& clipping_;
  const WireCodec& codec_;
  MemberSum& sum_;
  SharedBases& bases_;
  const std::vector<GradientGroup> groups_;
  std::vector<size_t> counts_;  // elements of each tensor's gradient, as the optimizer takes it
  std::vector<size_t> places_;  // offset of each tensor in its group's sum
  std::vector<size_t> sizes_;   // elements of each group's sum
  Sum filling_, in_flight_;     // empty until there are several members
  std::vector<float> projected_;
  size_t taken_ = 0;  // values of a tensor that is taken in slabs
  bool sums_in_flight_ = false;
  size_t next_group_ = 0;
  StepReport report_;
  std::optional<Failure> failure_;
};

}  // namespace thinwire::sync
