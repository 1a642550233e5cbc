// How workers that average projected gradients agree on the bases of their projections, during the
// backward pass (method/basis_sums.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/wire.h"
#include "thinwire/optim/average.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

class SharedBases {
 public:
  // All arguments must outlive this object.
  SharedBases(const Worker& worker, MemberSum& sum, const WireCodec& gradients);

  // What the optimizer takes to give a tensor its bases in this round (Optimizer::project); empty
  // if there is no other worker. After a failure it leaves values as they are. The round must
  // outlive it.
  optim::Average average(const Round& round, size_t tensor);
  // Ends a step: seconds that it waited for others, or its failure.
  Result<double> finish();
  bool failed() const { return failure_.has_value(); }

 private:
  void sum(const Round& round, uint32_t fragment, std::span<float> values);

  const Worker& worker_;
  MemberSum& sum_;
  const WireCodec& codec_;
  double waited_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace thinwire::sync
