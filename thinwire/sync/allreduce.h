// All-reduce: the baseline everything is compared with. Every step the gradients are averaged over
// the workers, weighted by tokens, and every replica applies the same optimizer step to the same
// mean, or each tensor's part of it during the backward pass (sync/streamed_updates.h).
#pragma once

#include <memory>

#include "thinwire/method/allreduce.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_allreduce(const Worker& worker,
                                         const method::AllReduceOptions& options);

}  // namespace thinwire::sync
