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
#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/wire.h"
#include "thinwire/config/sections.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

// How workers that average projected gradients agree on the bases of their projections, during the
// backward pass (method/gradient_sums.h).
class SharedBases {
 public:
  // All arguments must outlive this object.
  SharedBases(const WorkerParts& worker, MemberSum& sum, const WireCodec& gradients);

  // What the optimizer takes to give a tensor its bases in this round (Optimizer::project); empty
  // if there is no other worker. After a failure it leaves values as they are. The round must
  // outlive it.
  optim::Average average(const Round& round, size_t tensor);
  // Ends a step: seconds that it waited for others, or its failure.
  Result<double> finish();
  bool failed() const { return failure_.has_value(); }

 private:
  void sum(const Round& round, uint32_t fragment, std::span<float> values);

  const WorkerParts& worker_;
  MemberSum& sum_;
  const WireCodec& codec_;
  double waited_ = 0;
  std::optional<Failure> failure_;
};

// Gradient clipping: the factors by which an optimizer's step multiplies gradients. Norms are
// summed in an order fixed by position alone, with tensors in the order of the layout, so they do
// not depend on the order in which tensors arrive. They are norms of gradients as the optimizer
// takes them: with optim.gradients = projected, the norm of a projected matrix's gradient is that
// of the projection.

// With n the norm of this step's gradient, n' that of the previous step and n_t that of a tensor:
//   step      min(1, clip / (n + 1e-6)) for all tensors
//   previous  min(1, clip / (n' + 1e-6)) for all tensors; 1 in the first step
//   tensor    min(1, clip / (n_t + 1e-6))
// If clip is 0, the factor is always 1.
class Clipping {
 public:
  Clipping(config::ClipBy by, double clip, size_t tensors);

  // Measures the whole gradient of a step.
  void measure(const tensor::Arena& gradients, ThreadPool& threads);
  // Measures the gradient of one tensor and returns its norm. One that comes in parts, cut at
  // multiples of kNormBlock, is measured part by part in their order: `continues` says that
  // it is not the first. The norm is that of all parts so far.
  double measure(size_t tensor, std::span<const float> gradient, ThreadPool& threads,
                 bool continues = false);

  // The factor for a tensor. The tensor or the whole gradient must have been measured.
  float scale(size_t tensor) const;
  // The norm of the step's gradient before clipping, once all of it has been measured.
  double norm() const;
  void end_step();

  // What `previous` keeps from step to step. Equal on replicas that are fed the same gradients.
  std::vector<StateTensor> state();
  void reset() { previous_ = 0; }

 private:
  const config::ClipBy by_;
  const double clip_;
  optim::ArenaNorm arena_norm_;
  std::vector<double> norms_;    // by tensor
  double squares_ = 0;           // of the tensor measured last
  std::optional<double> whole_;  // set if the gradient was measured whole
  float previous_ = 0;
};

class StreamedUpdates {
 public:
  // All arguments must outlive this object.
  StreamedUpdates(const WorkerParts& worker, optim::Optimizer& optimizer, Clipping& clipping,
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

  const WorkerParts& worker_;
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
