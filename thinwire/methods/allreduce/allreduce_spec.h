// Facts of all-reduce: in every step the gradients are averaged over the workers, and every replica
// takes the same optimizer step with the mean. The code is in allreduce.cpp.
#pragma once

#include "thinwire/base/wire.h"
#include "thinwire/config/fields.h"

namespace thinwire::method {

// The table [allreduce].
struct AllReduceOptions final : config::SectionOf<AllReduceOptions> {
  WireType wire = WireType::kBf16;
  bool hide = true;  // method/gradient_sums.h
  void describe(config::Fields& fields) override;
};

struct Method;
extern const Method kAllReduce;

}  // namespace thinwire::method
