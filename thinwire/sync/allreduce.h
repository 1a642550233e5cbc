// All-reduce: the baseline for every comparison. In every step the gradients are averaged over the
// workers, weighted by tokens, and every replica takes the same optimizer step with the same mean,
// either at once (sync/gradient_average.h) or tensor by tensor during the backward pass
// (sync/streamed_updates.h).
#pragma once

#include <memory>

#include "thinwire/method/allreduce.h"
#include "thinwire/sync/strategy.h"

namespace thinwire::sync {

std::unique_ptr<Strategy> make_allreduce(const Worker& worker,
                                         const method::AllReduceOptions& options);

}  // namespace thinwire::sync
