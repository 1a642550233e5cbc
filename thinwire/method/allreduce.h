// Facts of all-reduce: every step the gradients are averaged over the workers, and every replica
// takes the same optimizer step with the mean. The code that does it is in sync/allreduce.h.
#pragma once

#include <string>

#include "thinwire/config/fields.h"
#include "thinwire/method/method.h"

namespace thinwire::method {

// The table [allreduce].
struct AllReduceOptions final : config::SectionOf<AllReduceOptions> {
  std::string wire = "bf16";  // bf16 | fp32 | fp8 | fp4 | int2
  void describe(config::Fields& fields) override;
};

extern const Method kAllReduce;

}  // namespace thinwire::method
