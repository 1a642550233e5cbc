// The average of gradients that are kept until the end of the step (method/gradient_sums.h): one
// sum after the backward pass, or sums of groups of tensors, each of which begins as soon as the
// step's last backward pass has completed the group.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/base/wire.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

class GradientAverage {
 public:
  // All arguments must outlive this object.
  GradientAverage(const WorkerParts& worker, MemberSum& sum, const WireCodec& codec);

  // The gradients of a group are complete; they are then read until finish() returns.
  void begin(const Round& round, int group);
  // Begins the sums that have not begun, as those of a member without a backward pass, and waits
  // for all: the gradients are then the mean over all members. Returns the seconds spent waiting.
  // After a failure other sums may still be in flight.
  Result<double> finish(const Round& round);

 private:
  transport::Key key(const Round& round, size_t range) const;
  std::span<float> values(size_t range);
  // The next range's sum.
  void start(const Round& round);

  const WorkerParts& worker_;
  MemberSum& sum_;
  const WireCodec& codec_;
  const std::vector<GroupRange> ranges_;  // of the gradients, one sum each
  size_t begun_ = 0;                      // in this step
};

}  // namespace thinwire::sync
